// Enough of CUDA to run a kernel on the host: blocks one after another, the threads of a block in turns, which change at
// shuffles and barriers. Everything is static: each source has its own. Slow; it is for what indices a kernel touches and what it computes, not for races.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static // one block runs at a time

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct uint4 { unsigned x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

using cudaStream_t = void *;
using cudaError_t = int;
constexpr int cudaSuccess = 0, cudaErrorInvalidValue = 1;
inline int cudaGetLastError() { return cudaSuccess; }
inline const char *cudaGetErrorString(cudaError_t) { return "no error on the host"; }

static dim3 threadIdx, blockIdx;

namespace host_cuda {
namespace {

struct Group { // who has come to a barrier
    int there = 0, alive = 0;
    unsigned round = 0;
    void release() {
        if (there && there == alive) there = 0, round++;
    }
};
struct Thread {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool ended = false;
};
constexpr size_t stack_bytes = 1 << 17;
ucontext_t scheduler;
std::vector<Thread> threads;
std::vector<Group> warps;
Group block;
unsigned current;
const std::function<void()> *kernel;
alignas(16) char lanes[1024][16];
uint32_t words[1024][6]; // of the factors of a product

void meet(Group &group) {
    const unsigned round = group.round;
    group.there++;
    group.release();
    while (group.round == round) swapcontext(&threads[current].context, &scheduler);
}

void enter() {
    (*kernel)();
    threads[current].ended = true;
    for (Group *group : {&warps[current / 32], &block}) group->alive--, group->release();
}

void launch(dim3 grid, unsigned size, const std::function<void()> &work) {
    kernel = &work;
    for (unsigned y = 0; y < grid.y; y++)
        for (unsigned x = 0; x < grid.x; x++) {
            blockIdx = dim3(x, y);
            threads = std::vector<Thread>(size);
            warps.assign(size / 32, Group{0, 32, 0});
            block = Group{0, int(size), 0};
            for (Thread &thread : threads) {
                thread.stack.reset(new char[stack_bytes]);
                getcontext(&thread.context);
                thread.context.uc_stack.ss_sp = thread.stack.get();
                thread.context.uc_stack.ss_size = stack_bytes;
                thread.context.uc_link = &scheduler;
                makecontext(&thread.context, enter, 0);
            }
            for (bool any = true; any;) {
                any = false;
                for (current = 0; current < size; current++)
                    if (!threads[current].ended) {
                        any = true;
                        threadIdx = dim3(current);
                        swapcontext(&scheduler, &threads[current].context);
                    }
            }
        }
}

template <class T> T lane_value(T value, unsigned from) {
    memcpy(lanes[current], &value, sizeof value);
    meet(warps[current / 32]);
    memcpy(&value, lanes[current / 32 * 32 + from % 32], sizeof value);
    meet(warps[current / 32]);
    return value;
}

// PTX's mma.m16n8k32 of signed bytes: lane l of a warp brings of A the rows l / 4 (words 0, 2) and l / 4 + 8 (words 1, 3),
// columns l % 4 * 4 to + 3 (words 0, 1) and 16 more (words 2, 3); of B column l / 4 and the same terms.
void mma_m16n8k32(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    const unsigned first = current / 32 * 32, lane = current % 32;
    memcpy(words[current], a, sizeof a);
    memcpy(words[current] + 4, b, sizeof b);
    meet(warps[current / 32]);
    for (unsigned e = 0; e < 4; e++) {
        const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        for (unsigned k = 0; k < 32; k++) {
            const uint32_t of_a = words[first + row % 8 * 4 + k % 16 / 4][row / 8 + k / 16 * 2];
            const uint32_t of_b = words[first + column * 4 + k % 16 / 4][4 + k / 16];
            d[e] += int(int8_t(of_a >> (k % 4 * 8))) * int(int8_t(of_b >> (k % 4 * 8)));
        }
    }
    meet(warps[current / 32]);
}

// PTX's mma.m16n8k16 of bfloat16: as above, with two terms of two bytes in a word instead of four of one.
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    const unsigned first = current / 32 * 32, lane = current % 32;
    const auto number = [](uint32_t word, unsigned half) {
        const uint32_t bits = (half ? word >> 16 : word & 0xFFFF) << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    };
    memcpy(words[current], a, sizeof a);
    memcpy(words[current] + 4, b, sizeof b);
    meet(warps[current / 32]);
    for (unsigned e = 0; e < 4; e++) {
        const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        for (unsigned k = 0; k < 16; k++) {
            const uint32_t of_a = words[first + row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
            const uint32_t of_b = words[first + column * 4 + k % 8 / 2][4 + k / 8];
            d[e] += number(of_a, k % 2) * number(of_b, k % 2);
        }
    }
    meet(warps[current / 32]);
}

} // namespace
} // namespace host_cuda

template <class T> static T __shfl_sync(unsigned, T value, int lane) { return host_cuda::lane_value(value, unsigned(lane)); }
template <class T> static T __shfl_xor_sync(unsigned, T value, int mask) {
    return host_cuda::lane_value(value, host_cuda::current ^ unsigned(mask));
}
static inline int __dp4a(int a, int b, int sum) {
    for (int byte = 0; byte < 4; byte++) sum += int(int8_t(unsigned(a) >> (8 * byte))) * int(int8_t(unsigned(b) >> (8 * byte)));
    return sum;
}
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned chosen) {
    const unsigned long long both = low | (unsigned long long)(high) << 32;
    unsigned word = 0;
    for (int byte = 0; byte < 4; byte++) word |= unsigned(both >> (8 * (chosen >> (4 * byte) & 7)) & 0xFF) << (8 * byte);
    return word;
}
static inline void __syncthreads() { host_cuda::meet(host_cuda::block); }
static inline unsigned long long atomicMin(unsigned long long *place, unsigned long long value) {
    const unsigned long long before = *place;
    *place = std::min(before, value);
    return before;
}
static inline unsigned atomicMax(unsigned *place, unsigned value) {
    const unsigned before = *place;
    *place = std::max(before, value);
    return before;
}
static inline unsigned long long atomicAdd(unsigned long long *place, unsigned long long value) {
    const unsigned long long before = *place;
    *place += value;
    return before;
}
