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

} // namespace
} // namespace host_cuda

template <class T> static T __shfl_sync(unsigned, T value, int lane) { return host_cuda::lane_value(value, unsigned(lane)); }
template <class T> static T __shfl_xor_sync(unsigned, T value, int mask) {
    return host_cuda::lane_value(value, host_cuda::current ^ unsigned(mask));
}
static inline void __syncthreads() { host_cuda::meet(host_cuda::block); }
static inline unsigned long long atomicMin(unsigned long long *place, unsigned long long value) {
    const unsigned long long before = *place;
    *place = std::min(before, value);
    return before;
}
