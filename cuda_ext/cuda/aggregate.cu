// Weighted neighbour sums on CUDA devices; arguments as on the CPU (cpu/aggregate.cpp), `threads` is not used.
#include "core/aggregate.h"
#include "cuda/teams.cuh"

namespace gnnqlab {
namespace {

struct Output {
    float *rows;
    int64_t stride;
    bool accumulate;
};

template <typename T, int kVec, int kReps>
__global__ void __launch_bounds__(kThreads, 4)
    sum_rows(Matrix matrix, Sources<T> from, Output out, int64_t start, int64_t stop, int64_t columns) {
    constexpr bool kScales = sizeof(T) == 1;
    constexpr int kSums = kVec * kHeld<T>; // a load's columns
    // Rows in flight: four, but two where each takes two wide loads of a lane, which is enough and leaves no register over.
    constexpr int kInFlight = kVec > 1 && kReps > 1 ? 2 : 4;
    const Columns<kVec, kReps> mine{int64_t(blockIdx.y) * Columns<kVec, kReps>::kTile, (columns + kHeld<T> - 1) / kHeld<T>};
    for_rows(matrix.indptr, start, stop, [&](const auto &team) {
        float sums[kReps][kSums] = {};
        for (int64_t base = team.begin; base < team.end; base += kWarpSize) {
            // A lane reads one edge; then all lanes go through the 32 edges together.
            const int64_t edge = base + team.lane();
            const int count = int(team.end - base < kWarpSize ? team.end - base : kWarpSize);
            int32_t column = 0;
            float weight = 1.0f;
            if (edge < team.end) {
                column = matrix.indices[edge];
                if (matrix.weights) weight = matrix.weights[edge];
                if (kScales) weight *= *source_scale<true>(from, column);
            }
#pragma unroll kInFlight
            for (int k = 0; k < count; k++) {
                const T *row = source_row<true>(from, __shfl_sync(kAllLanes, column, k));
                const float factor = __shfl_sync(kAllLanes, weight, k);
#pragma unroll
                for (int rep = 0; rep < kReps; rep++)
                    if (mine.has(rep)) {
                        const Run<T, kVec> run = load_run<T, kVec>(row + mine.at(rep));
#pragma unroll
                        for (int v = 0; v < kSums; v++)
                            sums[rep][v] = multiply_add(factor, element(run.elements, v), sums[rep][v]);
                    }
            }
        }
        float *to = out.rows + (team.row - start) * out.stride;
#pragma unroll
        for (int rep = 0; rep < kReps; rep++)
#pragma unroll
            for (int v = 0; v < kSums; v++) {
                const float sum = team.sum_warps(sums[rep][v]);
                // Of an odd number of columns the last byte holds one too many.
                const bool kept = kHeld<T> == 1 || mine.at(rep) * kHeld<T> + v < columns;
                if (team.writes() && mine.has(rep) && kept) {
                    float *place = to + mine.at(rep) * kHeld<T> + v;
                    *place = out.accumulate ? *place + sum : sum;
                }
            }
    });
}

template <typename T, int kVec, int kReps>
int64_t launch(const Matrix &matrix, const Sources<T> &from, const Output &out, int64_t start, int64_t stop,
               int64_t columns, cudaStream_t stream) {
    constexpr int kTile = Columns<kVec, kReps>::kTile;
    const dim3 grid = grid_of(stop - start, (columns + kTile * kHeld<T> - 1) / (kTile * kHeld<T>));
    sum_rows<T, kVec, kReps><<<grid, kThreads, 0, stream>>>(matrix, from, out, start, stop, columns);
    return cudaGetLastError();
}

template <typename T>
int64_t sum(const Matrix &matrix, const Sources<T> &from, const Output &out, int64_t start, int64_t stop,
            int64_t columns, cudaStream_t stream) {
    // 16 bytes of float32 or bfloat16, 8 of int8, 4 of pairs
    constexpr int kWide = sizeof(T) == 4 || kHeld<T> == 2 ? 4 : 8;
    constexpr int kReps = kHeld<T> == 2 ? 1 : 8 / kWide; // 256 columns a warp
    const int64_t stored = (columns + kHeld<T> - 1) / kHeld<T>;
    const bool wide = stored % kWide == 0 && stored > kWarpSize && aligned<kWide>(from.rows, from.stride, sizeof(T)) &&
                      (!from.halo || aligned<kWide>(from.halo, from.halo_stride, sizeof(T)));
    if (wide && stored > kWarpSize * kWide) return launch<T, kWide, kReps>(matrix, from, out, start, stop, columns, stream);
    if (wide) return launch<T, kWide, 1>(matrix, from, out, start, stop, columns, stream);
    if (stored > 2 * kWarpSize) return launch<T, 1, 4 / kHeld<T>>(matrix, from, out, start, stop, columns, stream);
    return launch<T, 1, 1>(matrix, from, out, start, stop, columns, stream);
}

} // namespace

GNNQLAB_CUDA_EXPORT(spmm)
(const int64_t *indptr, const int32_t *indices, const float *weights, int64_t start, int64_t stop, int64_t row_type,
 int64_t columns, const void *x, int64_t num_x, int64_t x_stride, const float *x_scales, const void *halo,
 int64_t, int64_t halo_stride, const float *halo_scales, float *out, int64_t out_stride, int64_t accumulate, int64_t,
 void *stream) {
    if (start >= stop || columns == 0) return cudaSuccess;
    const Matrix matrix{indptr, indices, weights};
    const Output to{out, out_stride, accumulate != 0};
    const auto run = [&](auto type) {
        using T = decltype(type);
        const Sources<T> from{(const T *)x, num_x, x_stride, x_scales, (const T *)halo, halo_stride, halo_scales};
        return sum<T>(matrix, from, to, start, stop, columns, cudaStream_t(stream));
    };
    if (row_type == kFloat32) return run(float());
    if (row_type == kBfloat16) return run(uint16_t());
    if (row_type == kInt8) return run(int8_t());
    return row_type == kInt4 ? run(Pair()) : int64_t(cudaErrorInvalidValue);
}

} // namespace gnnqlab
