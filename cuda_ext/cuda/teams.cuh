// Rows of a CSR matrix to warps: a warp for each row, and all warps of the block for each long row.
//
// A block has kWarps warps and as many consecutive rows. First each warp does its own row if that is short; then the whole
// block does its long rows one by one, each warp a run of consecutive edges, and the warps' results are put together in
// their order. So sums are deterministic, and a short row is summed in the order of its edges.
#pragma once

#include <cstdint>

namespace gnnqlab {
namespace {

constexpr int kWarps = 8, kWarpSize = 32, kThreads = kWarps * kWarpSize;
constexpr int64_t kLongRow = 1024; // edges
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr float kLeast = -3.402823466e38f;

// The edges of a row that belong to this warp, and how the team's warps put their results together.
template <bool kWholeBlock> struct Team {
    int64_t row, begin, end;
    float *shared; // kWarps * kWarpSize numbers

    __device__ int lane() const { return threadIdx.x % kWarpSize; }
    __device__ int warp() const { return threadIdx.x / kWarpSize; }
    // Whether this warp writes what the team found.
    __device__ bool writes() const { return !kWholeBlock || warp() == 0; }

    // One number a lane, over the warps only; valid in the warp that writes.
    __device__ float sum_warps(float value) const {
        if (!kWholeBlock) return value;
        __syncthreads();
        shared[threadIdx.x] = value;
        __syncthreads();
        if (warp() == 0) {
            value = shared[lane()];
            for (int other = 1; other < kWarps; other++) value += shared[other * kWarpSize + lane()];
        }
        return value;
    }

    // Over lanes and warps; valid everywhere.
    __device__ float sum(float value) const {
        for (int step = kWarpSize / 2; step; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
        if (!kWholeBlock) return value;
        __syncthreads();
        if (lane() == 0) shared[warp()] = value;
        __syncthreads();
        value = shared[0];
        for (int other = 1; other < kWarps; other++) value += shared[other];
        return value;
    }

    __device__ float largest(float value) const {
        for (int step = kWarpSize / 2; step; step /= 2) value = larger(value, __shfl_xor_sync(kAllLanes, value, step));
        if (!kWholeBlock) return value;
        __syncthreads();
        if (lane() == 0) shared[warp()] = value;
        __syncthreads();
        value = shared[0];
        for (int other = 1; other < kWarps; other++) value = larger(value, shared[other]);
        return value;
    }

  private:
    static __device__ float larger(float a, float b) { return b > a ? b : a; }
};

// Calls work(team) for each row of the block's share of [start, stop); every thread of the block must come here.
template <typename Work>
__device__ void for_rows(const int64_t *indptr, int64_t start, int64_t stop, const Work &work) {
    __shared__ float shared[kThreads];
    const int64_t first = start + int64_t(blockIdx.x) * kWarps;
    const int warp = threadIdx.x / kWarpSize;
    if (first + warp < stop) {
        const int64_t row = first + warp, begin = indptr[row], end = indptr[row + 1];
        if (end - begin <= kLongRow) work(Team<false>{row, begin, end, shared});
    }
    for (int64_t row = first; row < first + kWarps && row < stop; row++) {
        const int64_t begin = indptr[row], count = indptr[row + 1] - begin;
        if (count <= kLongRow) continue; // the same for all threads of the block
        __syncthreads();
        work(Team<true>{row, begin + count * warp / kWarps, begin + count * (warp + 1) / kWarps, shared});
    }
}

inline dim3 grid_of(int64_t rows, int64_t second = 1, int64_t third = 1) {
    return dim3(unsigned((rows + kWarps - 1) / kWarps), unsigned(second), unsigned(third));
}

__device__ inline float sum_lanes(float value) {
    for (int step = kWarpSize / 2; step; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    return value;
}

// Columns that a warp reads of a row: kReps times kVec neighbours a lane, from column `first` on.
template <int kVec, int kReps> struct Columns {
    static constexpr int kTile = kWarpSize * kVec * kReps;
    int64_t first, end; // end: of all columns

    __device__ int64_t at(int rep) const { return first + (rep * kWarpSize + threadIdx.x % kWarpSize) * kVec; }
    __device__ bool has(int rep) const { return at(rep) < end; } // kVec divides `end`, or is 1
};

// kVec neighbours in one load; the address is a multiple of their size.
template <typename T, int kVec> struct alignas(sizeof(T) * kVec) Run {
    T elements[kVec];
};

template <typename T, int kVec> __device__ Run<T, kVec> load_run(const T *from) {
    return *reinterpret_cast<const Run<T, kVec> *>(from);
}

template <int kVec> inline bool aligned(const void *pointer, int64_t stride, int64_t size) {
    return reinterpret_cast<uintptr_t>(pointer) % (size * kVec) == 0 && stride % kVec == 0;
}

} // namespace
} // namespace gnnqlab

#define GNNQLAB_CUDA_EXPORT(name) extern "C" __attribute__((visibility("default"))) int64_t gnnqlab_##name##_cuda
