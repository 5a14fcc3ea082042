// The CfC cell over a sequence, weights and state on chip: 8 sequences a block, D / 16 warps, one barrier a row.
//
// Compiled at run time with D (16 .. 128, a multiple of 16), EXACT (float32 inputs: every product is made of three
// half-precision ones), RESETS and, unless EXACT, bfloat16 inputs and outputs.
//
// Forward: the pre-activations [4 D, 8] of a row are W^T [4 D, D] times h [D, 8]. A warp owns 16 units; its fragments
// of W^T are permuted so that a thread ends up with all four pre-activations of its units and sequences, and the cell
// needs no exchange. Backward: the gradient of the row before is W [D, 4 D] times the gates' gradient [4 D, 8].
// Matrix unit: mma.m16n8k16, fragments as in the PTX manual: group = lane / 4 is a row of A and C and a column of B,
// tig = lane % 4 counts pairs along k (A, B) or along columns (C).

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

#define WARPS (D / 16)
#define THREADS (32 * WARPS)
#define SEQUENCES 8
#define KT (D / 16)
#define PAD 8

#if EXACT
typedef float io;
__device__ __forceinline__ float from_io(io v) { return v; }
__device__ __forceinline__ io to_io(float v) { return v; }
#else
typedef u16 io;
__device__ __forceinline__ float from_io(io v) { return __uint_as_float((u32)v << 16); }
__device__ __forceinline__ io to_io(float v) {
    u16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}
#endif

__device__ __forceinline__ u16 half(float v) {
    u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}
__device__ __forceinline__ float unhalf(u16 v) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v));
    return r;
}
__device__ __forceinline__ u16 brief(float v) {
    u16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}
__device__ __forceinline__ u32 pair(u16 low, u16 high) { return (u32)low | ((u32)high << 16); }
// Weights beyond float16's range are cut to it; NaN stays.
__device__ __forceinline__ float cut(float v) { return v > 65504.f ? 65504.f : (v < -65504.f ? -65504.f : v); }

__device__ __forceinline__ float sigmoid(float x) {
    float e, r;
    asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"(-1.4426950408889634f * x));
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(1.f + e));
    return r;
}

__device__ __forceinline__ void mma_f16(float *c, const u32 *a, u32 b0, u32 b1) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_bf16(float *c, const u32 *a, u32 b0, u32 b1) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ u32 word(const u16 *p) { return *reinterpret_cast<const u32 *>(p); }

// EXACT splits v 2^s into two float16 numbers; powers of two far from 1 keep the second one out of float16's
// denormals. States and scaled gradients are at most 1 and 2; the weights' power is found at the start.
#define RAISED 1024.f
__device__ __forceinline__ float power_of(float magnitude, int target) {
    const int exponent = min(max((int)(__float_as_uint(magnitude) >> 23), 27), 227);
    return __uint_as_float((u32)(127 + target + 127 - exponent) << 23);
}

// Largest weight's power of two that brings it near 2^13; the same for all threads.
__device__ __forceinline__ float weight_power(const float *weight) {
    __shared__ float largest[WARPS];
    float most = 0.f;
    for (int i = threadIdx.x; i < 4 * D * D; i += THREADS) most = fmaxf(most, fabsf(weight[i]));
#pragma unroll
    for (int step = 1; step < 32; step *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = most;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) most = fmaxf(most, largest[i]);
    return power_of(most, 13);
}

// One A fragment of float16 weights: at(r, k) is the element of row r * 8 + group; `low` receives what rounding lost.
template <typename At> __device__ __forceinline__ void fragment(At at, float power, int k, u32 *high, u32 *low) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int kk = k + (i / 2) * 8;
        float v0 = cut(power * at(i % 2, kk)), v1 = cut(power * at(i % 2, kk + 1));
        u16 h0 = half(v0), h1 = half(v1);
        high[i] = pair(h0, h1);
        low[i] = pair(half(v0 - unhalf(h0)), half(v1 - unhalf(h1)));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) cfc_forward(
    const io *gates, const float *weight, const float *dt, const float *state, const u8 *reset,
    io *hidden, float *last, float *active, int T, int B) {
    extern __shared__ uint4 low_weights[];  // EXACT: [warp][group of 8 units][tile][k tile][lane]
    __shared__ __align__(16) u16 h_high[2][SEQUENCES][D + PAD];
#if EXACT
    __shared__ __align__(16) u16 h_low[2][SEQUENCES][D + PAD];
#endif
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, tig = lane % 4;
#if EXACT
    const float power = weight_power(weight), back = 1.f / (power * RAISED);
#else
    const float power = 1.f;
#endif
    u32 w[2][2][KT][4];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int unit = warp * 16 + j * 8 + group;
#pragma unroll
        for (int tile = 0; tile < 2; tile++)
#pragma unroll
            for (int kt = 0; kt < KT; kt++) {
                u32 low[4];
                fragment([&](int r, int k) { return weight[(size_t)k * 4 * D + (2 * tile + r) * D + unit]; }, power,
                         kt * 16 + 2 * tig, w[j][tile][kt], low);
#if EXACT
                low_weights[(((warp * 2 + j) * 2 + tile) * KT + kt) * 32 + lane] = make_uint4(low[0], low[1], low[2], low[3]);
#endif
            }
    }
    const int first = blockIdx.x * SEQUENCES + 2 * tig;  // this thread's sequences: first, first + 1
    bool here[2];
    int seq[2];
#pragma unroll
    for (int c = 0; c < 2; c++) {
        here[c] = first + c < B;
        seq[c] = here[c] ? first + c : B - 1;
    }
    float h[2][2];     // [group of units][sequence]
    float g[2][4][2];  // gates of the row to come
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const int unit = warp * 16 + j * 8 + group;
            h[j][c] = state[(size_t)seq[c] * D + unit];
#pragma unroll
            for (int q = 0; q < 4; q++) g[j][q][c] = from_io(gates[(size_t)seq[c] * 4 * D + q * D + unit]);
        }
    float gap[2] = {dt[seq[0]], dt[seq[1]]};
    bool fresh[2] = {RESETS && reset[seq[0]], RESETS && reset[seq[1]]};
    for (int t = 0; t < T; t++) {
        const int buffer = t & 1;
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const int unit = warp * 16 + j * 8 + group;
#if EXACT
                const float v = fresh[c] ? 0.f : cut(RAISED * h[j][c]);
#else
                const float v = fresh[c] ? 0.f : h[j][c];
#endif
                const u16 high = half(v);
                h_high[buffer][2 * tig + c][unit] = high;
#if EXACT
                h_low[buffer][2 * tig + c][unit] = half(v - unhalf(high));
#endif
            }
        float p[2][2][4], input[2][2][4];
        float elapsed[2] = {gap[0], gap[1]};
        const int next = t + 1 < T ? t + 1 : t;
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int q = 0; q < 4; q++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int unit = warp * 16 + j * 8 + group;
                    input[j][q / 2][(q % 2) * 2 + c] = g[j][q][c];
                    p[j][q / 2][(q % 2) * 2 + c] = EXACT ? 0.f : g[j][q][c];
                    g[j][q][c] = from_io(gates[((size_t)next * B + seq[c]) * 4 * D + q * D + unit]);
                }
#pragma unroll
        for (int c = 0; c < 2; c++) {
            gap[c] = dt[(size_t)next * B + seq[c]];
            fresh[c] = RESETS && reset[(size_t)next * B + seq[c]];
        }
        __syncthreads();
#pragma unroll
        for (int kt = 0; kt < KT; kt++) {
            const int k = kt * 16 + 2 * tig;
            const u32 b0 = word(&h_high[buffer][group][k]), b1 = word(&h_high[buffer][group][k + 8]);
#if EXACT
            const u32 l0 = word(&h_low[buffer][group][k]), l1 = word(&h_low[buffer][group][k + 8]);
#endif
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
                for (int tile = 0; tile < 2; tile++) {
                    mma_f16(p[j][tile], w[j][tile][kt], b0, b1);
#if EXACT
                    mma_f16(p[j][tile], w[j][tile][kt], l0, l1);
                    const uint4 low = low_weights[(((warp * 2 + j) * 2 + tile) * KT + kt) * 32 + lane];
                    mma_f16(p[j][tile], reinterpret_cast<const u32 *>(&low), b0, b1);
#endif
                }
        }
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const int unit = warp * 16 + j * 8 + group;
#if EXACT
#pragma unroll
                for (int i = c; i < 4; i += 2) {
                    p[j][0][i] = fmaf(p[j][0][i], back, input[j][0][i]);
                    p[j][1][i] = fmaf(p[j][1][i], back, input[j][1][i]);
                }
#endif
                const float k1 = sigmoid(2.f * p[j][0][c]), k2 = sigmoid(2.f * p[j][0][2 + c]);
                const float slope = p[j][1][2 + c], share = sigmoid(fmaf(slope, elapsed[c], p[j][1][c]));
                h[j][c] = fmaf(2.f, fmaf(share, k2 - k1, k1), -1.f);
                if (here[c]) {
                    const size_t at = (size_t)t * B + seq[c];
                    hidden[at * D + unit] = to_io(h[j][c]);
                    float *kept = active + at * 4 * D + unit;
                    kept[0] = k1;
                    kept[D] = k2;
                    kept[2 * D] = share;
                    kept[3 * D] = slope;
                }
            }
    }
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int c = 0; c < 2; c++)
            if (here[c]) last[(size_t)seq[c] * D + warp * 16 + j * 8 + group] = h[j][c];
}

// The power of two that brings the largest magnitude over all units and gates near 2^10, for both sequences.
__device__ __forceinline__ void powers(float *most, float (*shared)[SEQUENCES], int warp, int group, int tig) {
#pragma unroll
    for (int c = 0; c < 2; c++) {
#pragma unroll
        for (int step = 4; step < 32; step *= 2) most[c] = fmaxf(most[c], __shfl_xor_sync(~0u, most[c], step));
        if (group == 0) shared[warp][2 * tig + c] = most[c];
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < 2; c++) {
        float m = shared[0][2 * tig + c];
        for (int i = 1; i < WARPS; i++) m = fmaxf(m, shared[i][2 * tig + c]);
        most[c] = power_of(m, 10);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) cfc_backward(
    const io *grad_hidden, const float *grad_last, const float *weight, const float *active, const float *dt,
    const u8 *reset, io *grad_gates, float *grad_state, int T, int B) {
    extern __shared__ uint4 low_weights[];  // EXACT: [warp][k tile][lane]
    __shared__ __align__(16) u16 g_high[SEQUENCES][4 * D + PAD];
#if EXACT
    __shared__ __align__(16) u16 g_low[SEQUENCES][4 * D + PAD];
    __shared__ float largest[2][WARPS][SEQUENCES];
#endif
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, tig = lane % 4;
#if EXACT
    const float power = weight_power(weight);
#endif
    u32 w[4 * KT][4];
#pragma unroll
    for (int kt = 0; kt < 4 * KT; kt++) {
#if EXACT
        u32 low[4];
        fragment([&](int r, int k) { return weight[(size_t)(warp * 16 + r * 8 + group) * 4 * D + k]; }, power,
                 kt * 16 + 2 * tig, w[kt], low);
        low_weights[(warp * 4 * KT + kt) * 32 + lane] = make_uint4(low[0], low[1], low[2], low[3]);
#else
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *at = weight + (size_t)(warp * 16 + (i % 2) * 8 + group) * 4 * D + kt * 16 + 2 * tig + (i / 2) * 8;
            w[kt][i] = pair(brief(at[0]), brief(at[1]));
        }
#endif
    }
    const int first = blockIdx.x * SEQUENCES + 2 * tig;
    bool here[2];
    int seq[2];
#pragma unroll
    for (int c = 0; c < 2; c++) {
        here[c] = first + c < B;
        seq[c] = here[c] ? first + c : B - 1;
    }
    float carried[2][2], outer[2][2], kept[2][3][2];
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const int unit = warp * 16 + j * 8 + group;
            const size_t at = (size_t)(T - 1) * B + seq[c];
            carried[j][c] = grad_last[(size_t)seq[c] * D + unit];
            outer[j][c] = from_io(grad_hidden[at * D + unit]);
#pragma unroll
            for (int q = 0; q < 3; q++) kept[j][q][c] = active[at * 4 * D + q * D + unit];
        }
    float gap[2] = {dt[(size_t)(T - 1) * B + seq[0]], dt[(size_t)(T - 1) * B + seq[1]]};
    bool fresh[2] = {RESETS && reset[(size_t)(T - 1) * B + seq[0]], RESETS && reset[(size_t)(T - 1) * B + seq[1]]};
    for (int t = T - 1; t >= 0; t--) {
        float d[2][4][2];
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const float k1 = kept[j][0][c], k2 = kept[j][1][c], share = kept[j][2][c];
                const float grad = carried[j][c] + outer[j][c], rest = 1.f - share;
                d[j][0][c] = 4.f * k1 * (1.f - k1) * rest * grad;
                d[j][1][c] = 4.f * k2 * (1.f - k2) * share * grad;
                d[j][2][c] = 2.f * (k2 - k1) * share * rest * grad;
                d[j][3][c] = d[j][2][c] * gap[c];
            }
        const int next = t > 0 ? t - 1 : 0;
        const bool zero[2] = {fresh[0], fresh[1]};
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const size_t at = (size_t)next * B + seq[c];
            gap[c] = dt[at];
            fresh[c] = RESETS && reset[at];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const int unit = warp * 16 + j * 8 + group;
                outer[j][c] = from_io(grad_hidden[at * D + unit]);
#pragma unroll
                for (int q = 0; q < 3; q++) kept[j][q][c] = active[at * 4 * D + q * D + unit];
            }
        }
#if EXACT
        float raised[2] = {0.f, 0.f};
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int q = 0; q < 4; q++)
#pragma unroll
                for (int c = 0; c < 2; c++) raised[c] = fmaxf(raised[c], fabsf(d[j][q][c]));
        powers(raised, largest[t & 1], warp, group, tig);  // holds the barrier behind the last row's products
#else
        __syncthreads();  // the last row's products were read
#endif
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int q = 0; q < 4; q++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int unit = warp * 16 + j * 8 + group;
#if EXACT
                    const float v = cut(d[j][q][c] * raised[c]);
                    const u16 high = half(v);
                    g_high[2 * tig + c][q * D + unit] = high;
                    g_low[2 * tig + c][q * D + unit] = half(v - unhalf(high));
#else
                    g_high[2 * tig + c][q * D + unit] = brief(d[j][q][c]);
#endif
                    if (here[c]) grad_gates[((size_t)t * B + seq[c]) * 4 * D + q * D + unit] = to_io(d[j][q][c]);
                }
        __syncthreads();
        float through[4][4], rest[2][4];  // the matrix unit cuts its sums: small parts are summed by themselves
#pragma unroll
        for (int q = 0; q < 4; q++)
#pragma unroll
            for (int i = 0; i < 4; i++) through[q][i] = rest[q % 2][i] = 0.f;
#pragma unroll
        for (int kt = 0; kt < KT; kt++)
#pragma unroll
            for (int q = 0; q < 4; q++) {  // four sums side by side
                const int tile = q * KT + kt, k = tile * 16 + 2 * tig;
                const u32 b0 = word(&g_high[group][k]), b1 = word(&g_high[group][k + 8]);
#if EXACT
                mma_f16(through[q], w[tile], b0, b1);
                mma_f16(rest[q % 2], w[tile], word(&g_low[group][k]), word(&g_low[group][k + 8]));
                const uint4 low = low_weights[(warp * 4 * KT + tile) * 32 + lane];
                mma_f16(rest[q % 2], reinterpret_cast<const u32 *>(&low), b0, b1);
#else
                mma_bf16(through[q], w[tile], b0, b1);
#endif
            }
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const int i = 2 * j + c;
                const float sum = (through[0][i] + through[1][i]) + (through[2][i] + through[3][i]) +
                                  (rest[0][i] + rest[1][i]);
#if EXACT
                carried[j][c] = zero[c] ? 0.f : sum / power / raised[c];
#else
                carried[j][c] = zero[c] ? 0.f : sum;
#endif
            }
    }
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int c = 0; c < 2; c++)
            if (here[c]) grad_state[(size_t)seq[c] * D + warp * 16 + j * 8 + group] = carried[j][c];
}
