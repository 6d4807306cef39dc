// What giving an edge to a part costs, and which of a node's copies is its master: the arithmetic of vertex-cuts.
#pragma once

#include "core/port.h"

namespace gnnqlab {

// Which parts hold a copy of each node: bit i of its row for part i.
struct Copies {
    uint8_t *bits;
    int64_t stride;  // bytes a node

    bool has(int64_t node, int64_t part) const {
        return bits[node * stride + (part >> 3)] >> (part & 7) & 1;
    }
    void add(int64_t node, int64_t part) const {
        bits[node * stride + (part >> 3)] |= uint8_t(1 << (part & 7));
    }
};

// CDFGNN Eq. 24: missing counts ends without a copy on the part, away those that are not at home on its host.
GNNQLAB_FN double edge_cost(double gamma, int missing, int away, double load) {
    return (1.0 - gamma) * missing + gamma * away + load;
}

GNNQLAB_FN double part_load(double alpha, int64_t edges, double edge_share, double beta, int64_t nodes, double node_share) {
    return alpha * double(edges) / edge_share + beta * double(nodes) / node_share;
}

// HDRF: a copy is worth more the fewer edges its node has beside the other end's.
GNNQLAB_FN double copy_worth(double own_degree, double other_degree) {
    return 1.0 + (1.0 - own_degree / (own_degree + other_degree));
}

}  // namespace gnnqlab
