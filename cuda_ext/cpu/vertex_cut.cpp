// Edges given to parts one by one: by EBV's cost, by HDRF's worth; and a master for each node. One thread: every choice
// depends on the ones before it.
#include "core/vertex_cut.h"

#include <cstring>
#include <limits>
#include <vector>

#include "cpu/export.h"

namespace gnnqlab {
namespace {

// Byte of bits -> eight bytes, each 0 or 1: eight parts are counted at once.
struct Spread {
    uint64_t of[256];

    Spread() {
        for (int byte = 0; byte < 256; byte++) {
            uint8_t bits[8];
            for (int k = 0; k < 8; k++) bits[k] = byte >> k & 1;
            std::memcpy(&of[byte], bits, 8);
        }
    }
};

// Where a node is at home, of two rules: hosts that have a copy of it, or that one and the host it is known to belong to.
struct Homes {
    Copies copies;
    const int32_t *home;  // or nullptr: copies alone
    std::vector<uint8_t> mask;  // (hosts, stride): a host's parts

    Homes(const Copies &copies, const int32_t *home, int64_t parts, int64_t hosts)
        : copies(copies), home(home), mask(hosts * copies.stride, 0) {
        for (int64_t part = 0; part < parts; part++)
            mask[part / (parts / hosts) * copies.stride + (part >> 3)] |= uint8_t(1 << (part & 7));
    }

    bool at(int64_t node, int64_t host) const {
        uint8_t any = home && home[node] == host;
        for (int64_t byte = 0; byte < copies.stride; byte++)
            any |= copies.bits[node * copies.stride + byte] & mask[host * copies.stride + byte];
        return any;
    }
};

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

// settings: alpha, beta, gamma, edges of an even share, nodes of an even share. limit: most edges of a part.
GNNQLAB_EXPORT(ebv)
(const int32_t *u, const int32_t *v, int64_t edges, int64_t parts, int64_t hosts, int64_t limit, const double *settings,
 const int32_t *home, uint8_t *bits, int64_t stride, int32_t *part_of) {
    const Copies copies = {bits, stride};
    const Homes homes(copies, home, parts, hosts);
    static const Spread spread;
    const int64_t per_host = parts / hosts;
    constexpr double kFull = std::numeric_limits<double>::infinity();
    double without[3][3];  // [away][missing]: a cost but for the part's load
    for (int away = 0; away < 3; away++)
        for (int missing = 0; missing < 3; missing++) without[away][missing] = edge_cost(settings[2], missing, away, 0.0);
    std::vector<int64_t> edges_of(parts, 0), nodes_of(parts, 0);
    std::vector<double> load(parts, limit > 0 ? 0.0 : kFull);
    std::vector<uint8_t> missing(8 * stride);
    for (int64_t e = 0; e < edges; e++) {
        const uint8_t *of_u = bits + u[e] * stride, *of_v = bits + v[e] * stride;
        for (int64_t byte = 0; byte < stride; byte++) {
            const uint64_t left = 0x0202020202020202u - spread.of[of_u[byte]] - spread.of[of_v[byte]];
            std::memcpy(&missing[8 * byte], &left, 8);
        }
        int64_t chosen = -1;
        double least = kFull;
        for (int64_t host = 0, part = 0; host < hosts; host++) {
            const double *base = without[!homes.at(u[e], host) + !homes.at(v[e], host)];
            for (int64_t end = part + per_host; part < end; part++) {
                const double cost = base[missing[part]] + load[part];
                chosen = cost < least ? part : chosen;
                least = cost < least ? cost : least;
            }
        }
        if (chosen < 0) return e + 1;
        part_of[e] = int32_t(chosen);
        edges_of[chosen]++;
        for (const int64_t node : {u[e], v[e]}) {
            if (copies.has(node, chosen)) continue;
            copies.add(node, chosen);
            nodes_of[chosen]++;
        }
        load[chosen] = edges_of[chosen] >= limit ? kFull
                                                 : part_load(settings[0], edges_of[chosen], settings[3], settings[1],
                                                             nodes_of[chosen], settings[4]);
    }
    return 0;
}

// settings: lambda, epsilon. counts: whether degrees are counted as edges come. loads: edges that parts have already.
GNNQLAB_EXPORT(hdrf)
(const int32_t *u, const int32_t *v, int64_t edges, int64_t parts, int64_t limit, const double *settings, int64_t counts,
 int64_t *degrees, int64_t *loads, uint8_t *bits, int64_t stride, int32_t *part_of) {
    const Copies copies = {bits, stride};
    for (int64_t e = 0; e < edges; e++) {
        const int64_t a = u[e], b = v[e];
        if (counts) degrees[a]++, degrees[b]++;
        const double worth_a = copy_worth(double(degrees[a]), double(degrees[b]));
        const double worth_b = copy_worth(double(degrees[b]), double(degrees[a]));
        int64_t most = loads[0], least = loads[0];
        for (int64_t part = 1; part < parts; part++) {
            most = loads[part] > most ? loads[part] : most;
            least = loads[part] < least ? loads[part] : least;
        }
        const double spread = settings[1] + double(most - least);
        int64_t chosen = -1;
        double best = 0.0;
        for (int64_t part = 0; part < parts; part++) {
            if (loads[part] >= limit) continue;
            const double worth = (copies.has(a, part) ? worth_a : 0.0) + (copies.has(b, part) ? worth_b : 0.0);
            const double score = worth + settings[0] * (double(most - loads[part]) / spread);
            if (chosen < 0 || score > best) best = score, chosen = part;
        }
        if (chosen < 0) return e + 1;
        part_of[e] = int32_t(chosen);
        loads[chosen]++;
        copies.add(a, chosen);
        copies.add(b, chosen);
    }
    return 0;
}

// The copy on the host with most copies whose worker answers for the fewest mirrors so far, then for the fewest nodes;
// nodes without copies come last and go where there are fewest.
GNNQLAB_EXPORT(masters)
(const uint8_t *bits, int64_t stride, int64_t nodes, int64_t parts, int64_t hosts, int64_t *owner) {
    const Copies copies = {const_cast<uint8_t *>(bits), stride};
    const int64_t per_host = parts / hosts;
    std::vector<int64_t> mirrors(parts, 0), count(parts, 0), here(hosts);
    for (int64_t node = 0; node < nodes; node++) {
        int64_t host = 0, all = 0;
        for (int64_t h = 0; h < hosts; h++) {
            here[h] = 0;
            for (int64_t part = h * per_host; part < (h + 1) * per_host; part++) here[h] += copies.has(node, part);
            all += here[h];
            if (here[h] > here[host]) host = h;
        }
        int64_t chosen = -1;
        for (int64_t part = host * per_host; all && part < (host + 1) * per_host; part++) {
            if (!copies.has(node, part)) continue;
            if (chosen < 0 || mirrors[part] < mirrors[chosen] ||
                (mirrors[part] == mirrors[chosen] && count[part] < count[chosen]))
                chosen = part;
        }
        owner[node] = chosen;
        if (chosen < 0) continue;
        mirrors[chosen] += all - 1;
        count[chosen]++;
    }
    for (int64_t node = 0; node < nodes; node++) {
        if (owner[node] >= 0) continue;
        int64_t chosen = 0;
        for (int64_t part = 1; part < parts; part++) chosen = count[part] < count[chosen] ? part : chosen;
        owner[node] = chosen;
        count[chosen]++;
    }
    return 0;
}
