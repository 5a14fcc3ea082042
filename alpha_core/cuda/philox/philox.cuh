// Philox4x32-10 (Salmon et al. 2011) as alpha_core/rng.py defines it: same counters, same keys, same bits.

typedef long long i64;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;

// One word of four is the uniform of a lane.
__device__ __forceinline__ void philox(u64 seed, u64 episode, u32 step, u32 purpose, u32 words[4]) {
    u32 c0 = (u32)episode, c1 = step, c2 = purpose, c3 = (u32)(episode >> 32);
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        u64 left = (u64)c0 * 0xD2511F53u, right = (u64)c2 * 0xCD9E8D57u;
        c0 = (u32)(right >> 32) ^ c1 ^ k0;
        c1 = (u32)right;
        c2 = (u32)(left >> 32) ^ c3 ^ k1;
        c3 = (u32)left;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}
__device__ __forceinline__ float unit(u32 word) { return (float)(word >> 8) * 5.9604644775390625e-08f; }
