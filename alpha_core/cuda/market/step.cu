// One decision of every lane of the replayed market: a thread is a lane, every rule of the environment in one launch.
//
// The rules are those of alpha_core/market/environment.py and matching.py, operation by operation: integers throughout,
// and where there are floats the same single operations in the same order, so that the bits are the same. Compiled at
// run time behind philox.cuh with the rules of an episode (HORIZON, LATENCY, SIZE, LIMIT, POST_ONLY, SHARE_MILLI, MODE, DEPTH), the
// factors of the observation as bit patterns (POSITION_BITS, UNREALISED_BITS of a float, TIME_BITS), and CONSTANTS of
// the tables. Lanes of one block read scattered rows of the market; everything else lies side by side.

#define PESSIMISTIC 0
#define TOUCH 1
#define QUEUE 2
#define POISSON 3
#define HAS_QUEUE (MODE == QUEUE || MODE == POISSON)
#define SETTLE 9
#define UNKNOWN (1LL << 30)
#define NO_LIMIT (-(1LL << 40))
#define HALF_MICRO (MICRO / 2)

struct Account {
    i64 position, cash, basis, trades, fills, turnover;
};
struct Order {
    i64 side, price, left, queue, level, priority;
};
struct Tables {
    const int *quote, *ladder, *flow;
    const float *view, *edge, *hazard, *factor, *waiting;
};

__device__ __forceinline__ i64 least(i64 a, i64 b) { return a < b ? a : b; }
__device__ __forceinline__ i64 most(i64 a, i64 b) { return a > b ? a : b; }
__device__ __forceinline__ i64 clamped(i64 v, i64 low, i64 high) { return least(most(v, low), high); }
__device__ __forceinline__ i64 absolute(i64 v) { return v < 0 ? -v : v; }
__device__ __forceinline__ i64 floored(i64 a, i64 b) {  // b > 0
    i64 q = a / b;
    return q - (a % b < 0);
}
__device__ __forceinline__ float as_float(u32 bits) {
    union { u32 i; float f; } both;
    both.i = bits;
    return both.f;
}
__device__ __forceinline__ u32 as_bits(float value) {
    union { u32 i; float f; } both;
    both.f = value;
    return both.i;
}
__device__ __forceinline__ i64 toward(i64 action) {  // +1 buys, -1 sells
    return action >= 1 && action <= 6 ? (action & 1 ? 1 : -1) : 0;
}

__device__ __forceinline__ i64 share(i64 amount, i64 part, i64 whole) {
    whole = most(whole, 1);
    i64 each = floored(amount, whole);
    return each * part + floored((amount - each * whole) * part, whole);
}

__device__ __forceinline__ void trade(Account &a, i64 lots, i64 proceeds, i64 cost, bool resting) {
    i64 held = absolute(a.position), size = absolute(lots);
    i64 closed = a.position * lots < 0 ? least(held, size) : 0;
    i64 income = proceeds * MICRO;
    i64 kept = share(a.basis, held - closed, held), opened = share(income, size - closed, size);
    a.position += lots;
    a.cash += income - cost * size;
    a.basis = kept - opened;
    a.trades += size > 0;
    a.fills += resting && size > 0;
    a.turnover += size;
}

__device__ __forceinline__ bool granted(const Tables &t, i64 row, const Order &o, u64 seed, u64 episode, u32 step) {
    u32 words[4];
    philox(seed, episode, step, PURPOSE_FILL, words);
    i64 column = 2 * (clamped(o.level, 1, FILL_LEVELS) - 1) + (o.side < 0);
    int bucket = ((int)as_bits((float)(o.queue + 1)) - (127 << 23)) >> 12;
    float waiting = t.waiting[(i64)(unit(words[0]) * 65536.0f)];
    return waiting < t.hazard[row * (2 * FILL_LEVELS) + column] * t.factor[bucket] && o.level <= FILL_LEVELS;
}

// The resting order meets the tape of the interval after `row`, then the touch of the next row.
__device__ void interval(const Tables &t, Order &o, Account &a, i64 row, i64 next, i64 cost, u64 seed, u64 episode, u32 step) {
    const int *now = t.quote + row * 8, *then = t.quote + next * 8;
    bool bid = o.side > 0;
    i64 away = ((i64)(bid ? now[0] : now[1]) - o.price) * o.side;
    const int *flow = t.flow + (2 * row + (o.side < 0)) * 12;
    i64 beyond = flow[clamped(away, 0, 8)], through = flow[clamped(away + 1, 0, 8)], reach = flow[9];
    i64 at = most(away < 7 ? beyond - through : 0, reach == away);
    through = most(through, reach > away);
    i64 cancelled = away == 0 ? flow[10] : 0;
    if (MODE == POISSON) o.priority |= granted(t, row, o, seed, episode, step);
    i64 lots = through;
    if (MODE == TOUCH) lots += at;
    if (MODE == QUEUE) lots += most(at - o.queue, 0);
    if (MODE == POISSON) lots += at * o.priority;
    lots = least(lots, o.left);
    i64 far = bid ? then[1] : then[0], size = bid ? then[6] : then[5];
    if ((o.price - far) * o.side >= 0 && o.side != 0) lots += least(size, o.left - lots);
    trade(a, o.side * lots, -o.side * lots * o.price, cost, true);
    if (HAS_QUEUE) o.queue = through == 0 ? most(o.queue - at - cancelled * SHARE_MILLI / 1000, 0) : 0;
    o.left -= lots;
    o.side *= o.left > 0;
}

__device__ void stand(const Tables &t, i64 row, Order &o) {
    const int *ladder = t.ladder + (2 * row + (o.side < 0)) * 24;
    int price = (int)(o.price * o.side);
    i64 displayed = 0, level = 1;
    for (int l = 0; l < LEVELS; ++l) {
        displayed += ladder[l] == price ? ladder[LEVELS + l] : 0;
        if (l < FILL_LEVELS) level += ladder[l] > price;
    }
    o.queue = least(o.queue, ladder[LEVELS - 1] > price ? UNKNOWN : displayed);
    o.level = level;
}

// An action reaches the book of a row.
__device__ void execute(const Tables &t, Order &o, Account &a, i64 row, i64 action, i64 price, i64 cost) {
    const int *quote = t.quote + row * 8;
    bool joins = action >= 3 && action <= 6, flattens = action >= 8;
    i64 direction = flattens ? (a.position < 0) - (a.position > 0) : toward(action);
    i64 far = direction > 0 ? quote[1] : quote[0];
    bool marketable = joins && (price - far) * direction >= 0;
    bool takes = action == 1 || action == 2 || (!POST_ONLY && marketable);
    i64 limit = !POST_ONLY && joins ? -direction * price : NO_LIMIT;
    i64 want = flattens ? absolute(a.position) : (takes ? SIZE : 0), left = want, proceeds = 0;
    const int *ladder = t.ladder + (2 * row + (direction > 0)) * 24;
    for (int l = 0; l < DEPTH && left > 0; ++l) {
        i64 take = ladder[l] >= limit ? least(ladder[LEVELS + l], left) : 0;
        proceeds += take * ladder[l];
        left -= take;
    }
    i64 forced = action == SETTLE ? left : 0;
    i64 lots = want - left + forced;
    trade(a, direction * lots, proceeds + forced * ladder[2 * LEVELS], cost, false);
    bool rests = joins && !(POST_ONLY && marketable);
    o.left = rests ? SIZE - lots : (action < 7 ? o.left : 0);
    o.side = (rests ? direction : o.side) * (o.left > 0);
    if (rests) o.price = price, o.queue = UNKNOWN, o.priority = 0;
    if (HAS_QUEUE) stand(t, row, o);
}

__device__ void allow(const Tables &t, const Order &o, i64 position, i64 row, bool live, float threshold,
                      const i64 *flying, i64 lanes, u8 *mask) {
    const int *quote = t.quote + row * 8;
    i64 bids = o.side > 0 ? o.left : 0, asks = o.side < 0 ? o.left : 0, ceiling = position, floor = position;
    bool unengaged = o.left == 0;
    for (int w = 0; w < LATENCY - 1; ++w) {
        i64 action = flying[w * lanes];
        bids += toward(action) > 0 ? SIZE : 0;
        asks += toward(action) < 0 ? SIZE : 0;
        if (action == 8) ceiling = most(position, 0), floor = least(position, 0);
        if (action >= 3 && action <= 6) unengaged = false;
    }
    i64 high = ceiling + bids + SIZE, low = floor - asks - SIZE;
    float edge = t.edge[row];
    bool buy = live && high <= LIMIT && (high <= 0 || edge >= threshold);
    bool sell = live && low >= -LIMIT && (low >= 0 || -edge >= threshold);
    mask[0] = 1, mask[1] = buy, mask[2] = sell, mask[3] = buy && unengaged, mask[4] = sell && unengaged;
    mask[5] = mask[3] && quote[2] > UNDEFINED, mask[6] = mask[4] && quote[3] > UNDEFINED;
    mask[7] = o.left > 0, mask[8] = position != 0;
}

__device__ void look(const Tables &t, i64 row, i64 step, const Order &o, const Account &a, float *seen) {
    for (int c = 0; c < 10; ++c) seen[c] = t.view[row * 10 + c];
    i64 unrealised = a.position * t.quote[row * 8 + 4] * HALF_MICRO - a.basis;
    seen[2] = (float)a.position * as_float(POSITION_BITS);
    seen[3] = (float)unrealised * as_float(UNREALISED_BITS);
    seen[4] = (float)(HORIZON - step) * as_float(TIME_BITS);
    seen[8] = (float)o.side;
}

// numbers [15, E]: row, step, position, cash, basis, trades, fills, turnover, side, price, left, queue, level, priority,
// pnl; in and out may be the same memory. flight [2 (LATENCY - 1), E]: actions in flight, oldest first, then prices.
extern "C" __global__ void market_step(
    const int *quote, const int *ladder, const int *flow, const float *view, const float *edge, const float *hazard,
    const float *factor, const float *waiting, const i64 *numbers, const i64 *flight,
    const i64 *episode, const i64 *cost, const float *threshold, const u8 *mask, const i64 *actions,
    i64 *next_numbers, i64 *next_flight, i64 *next_quotes, u8 *next_mask, float *seen, float *reward, u8 *done,
    int lanes, u32 seed_low, u32 seed_high) {
    int lane = blockIdx.x * blockDim.x + threadIdx.x;
    if (lane >= lanes) return;
    Tables t = {quote, ladder, flow, view, edge, hazard, factor, waiting};
    i64 E = lanes;
    i64 v[15];
    for (int i = 0; i < 15; ++i) v[i] = numbers[i * E + lane];
    i64 row = v[0], step = v[1], before = v[14];
    Account a = {v[2], v[3], v[4], v[5], v[6], v[7]};
    Order o = {v[8], v[9], v[10], v[11], v[12], v[13]};
    i64 charge = cost[lane];

    bool live = step < HORIZON;
    i64 chosen = mask[lane * 9 + actions[lane]] ? actions[lane] : 0;
    i64 price = quote[row * 8 + clamped(chosen - 3, 0, 3)], arriving = chosen, limit = price;
    if (LATENCY > 1) {
        arriving = flight[lane], limit = flight[(LATENCY - 1) * E + lane];
        for (int w = 0; w + 2 < LATENCY; ++w) {
            next_flight[w * E + lane] = flight[(w + 1) * E + lane];
            next_flight[(LATENCY - 1 + w) * E + lane] = flight[(LATENCY + w) * E + lane];
        }
        next_flight[(LATENCY - 2) * E + lane] = chosen;
        next_flight[(2 * LATENCY - 3) * E + lane] = price;
    }
    if (LATENCY == 0) {
        execute(t, o, a, row, arriving, limit, charge);
        arriving = 0;
    }
    u64 seed = seed_low | (u64)seed_high << 32;
    interval(t, o, a, row, row + live, charge, seed, (u64)episode[lane], (u32)step);
    row += live, step += live;
    execute(t, o, a, row, step >= HORIZON ? SETTLE : arriving, limit, charge);
    i64 pnl = a.cash + a.position * quote[row * 8 + 4] * HALF_MICRO;

    i64 out[15] = {row, step, a.position, a.cash, a.basis, a.trades, a.fills, a.turnover,
                   o.side, o.price, o.left, o.queue, o.level, o.priority, pnl};
    for (int i = 0; i < 15; ++i) next_numbers[i * E + lane] = out[i];
    for (int i = 0; i < 8; ++i) next_quotes[i * E + lane] = quote[row * 8 + i];
    allow(t, o, a.position, row, step < HORIZON, threshold[lane], next_flight + lane, E, next_mask + lane * 9);
    look(t, row, step, o, a, seen + lane * 10);
    reward[lane] = (float)((double)(pnl - before) * (1.0 / MICRO));
    done[lane] = step >= HORIZON;
}
