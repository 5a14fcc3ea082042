// [E, count] uniforms of one step; `count` lanes of a purpose, four of them from one call.
extern "C" __global__ void philox_uniforms(const i64 *episode, const i64 *step, float *out, int purpose, int count,
                                           int lanes, u32 seed_low, u32 seed_high) {
    int lane = blockIdx.x * blockDim.x + threadIdx.x;
    if (lane >= lanes) return;
    for (int first = 0; first < count; first += 4) {
        u32 words[4];
        philox(seed_low | (u64)seed_high << 32, (u64)episode[lane], (u32)*step, (u32)(purpose | (first / 4) << 8), words);
        for (int i = 0; i < 4 && first + i < count; ++i) out[(i64)lane * count + first + i] = unit(words[i]);
    }
}
