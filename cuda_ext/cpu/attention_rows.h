// What passes over the rows of an adjacency share: rows balanced by edges, softmax, heads one after another.
#pragma once

#include <algorithm>
#include <vector>

#include "core/attention.h"
#include "cpu/attention_pass.h"
#include "cpu/schedule.h"

namespace gnnqlab {
namespace {

// Runs `row(r, scratch)` for the rows of a range, balanced by edges; scratch has room for `parts` numbers an edge of the
// longest row of the chunk.
template <typename Row>
void for_rows(const int64_t *indptr, int64_t start, int64_t stop, int64_t parts, int64_t threads, const Row &row) {
    const Chunks chunks(indptr, start, stop, threads);
#pragma omp parallel num_threads(threads) if (threads > 1 && chunks.count > 1)
    {
        std::vector<float> scratch;
#pragma omp for schedule(dynamic)
        for (int64_t chunk = 0; chunk < chunks.count; chunk++) {
            const int64_t end = chunks.bound(chunk + 1);
            for (int64_t r = chunks.bound(chunk); r < end; r++) {
                const size_t room = size_t((indptr[r + 1] - indptr[r]) * parts);
                if (scratch.size() < room) scratch.resize(room + room / 2);
                row(r, scratch.data());
            }
        }
    }
}

// Maximum and sum over independent lanes, so that the compiler can keep them in registers.
float largest_of(const float *values, int64_t count) {
    constexpr int kWays = 16;
    float ways[kWays];
    std::fill(ways, ways + kWays, values[0]);
    int64_t k = 0;
    for (; k + kWays <= count; k += kWays)
        for (int way = 0; way < kWays; way++) ways[way] = values[k + way] > ways[way] ? values[k + way] : ways[way];
    float largest = *std::max_element(ways, ways + kWays);
    for (; k < count; k++) largest = std::max(largest, values[k]);
    return largest;
}

float sum_of(const float *values, int64_t count) {
    constexpr int kWays = 16;
    float ways[kWays] = {}, sum = 0.0f;
    int64_t k = 0;
    for (; k + kWays <= count; k += kWays)
        for (int way = 0; way < kWays; way++) ways[way] += values[k + way];
    for (; k < count; k++) sum += values[k];
    for (int way = 0; way < kWays; way++) sum += ways[way];
    return sum;
}

// Logits to attention, in place; returns the largest logit and the reciprocal of the sum.
void softmax(float *values, int64_t count, float *largest, float *reciprocal) {
    if (count == 0) {
        *largest = *reciprocal = 0.0f;
        return;
    }
    const float top = *largest = largest_of(values, count);
    for (int64_t k = 0; k < count; k++) values[k] = exponential(values[k] - top);
    const float factor = *reciprocal = 1.0f / sum_of(values, count);
    for (int64_t k = 0; k < count; k++) values[k] *= factor;
}

// Row-major [edges, heads] to one run of edges for each head, and back.
void take_heads(const float *values, const int32_t *edges, int64_t first, int64_t count, int64_t heads, float *to) {
    for (int64_t k = 0; k < count; k++) {
        const float *from = values + (edges ? int64_t(edges[first + k]) : first + k) * heads;
        for (int64_t head = 0; head < heads; head++) to[head * count + k] = from[head];
    }
}

void put_heads(const float *from, const int32_t *edges, int64_t first, int64_t count, int64_t heads, float *values) {
    for (int64_t k = 0; k < count; k++) {
        float *to = values + (edges ? int64_t(edges[first + k]) : first + k) * heads;
        for (int64_t head = 0; head < heads; head++) to[head] = from[head * count + k];
    }
}

} // namespace
} // namespace gnnqlab
