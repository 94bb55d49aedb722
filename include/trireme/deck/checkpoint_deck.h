#pragma once
// Deck section [checkpoint]: saving.

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/deck/field.h"

namespace trireme {

struct CheckpointDeck {
  std::int64_t every = 0, keep = 2, keep_every = 0, files = 1, stripe_count = 0;
  std::int64_t aggregators = 0, aggregators_per_node = 0;
  bool at_end = true, async = true;
  double align_mb = 1, stripe_mb = 0;
  std::string on_error = "stop", blocks = "grid", transfer = "direct";
  std::vector<std::string> hints;
  template <class V>
  void describe(V& v) {
    v.field("every", every, "steps between checkpoints; 0: none on the way", size_from(0));
    v.field("at_end", at_end, "write one after the last step", any<bool>());
    v.field("keep", keep, "newest checkpoints to keep; 0: all", size_from(0));
    v.field("keep_every", keep_every, "keep those of every so many steps for ever; 0: none", size_from(0));
    v.field("async", async, "write beside the training, from a snapshot in host memory, where there is room for it",
            any<bool>());
    v.field("on_error", on_error, "a save that fails (disk full, quota, folder gone) ends the run, or is warned of",
            one_of({"stop", "continue"}));
    v.field("files", files, "more than 1: virtual arrays over this many files in a folder beside the checkpoint",
            between<std::int64_t>(1, 9999));
    v.field("blocks", blocks,
            "grid: matrices that tensor parallelism cuts by columns lie in the file in the blocks of this grid; none: "
            "row by row",
            one_of({"grid", "none"}));
    v.field("transfer", transfer,
            "direct: every rank writes its own blocks; collective: through MPI-IO's collective buffering",
            one_of({"direct", "collective"}));
    v.field("align_mb", align_mb, "arrays begin at multiples of this many MiB", between(0.0, 1024.0));
    v.field("stripe_count", stripe_count,
            "MPI-IO hint striping_factor: storage targets of a file; -1: all; 0: as the folder says",
            between<std::int64_t>(-1, 1000000));
    v.field("stripe_mb", stripe_mb, "MPI-IO hint striping_unit in MiB; 0: as the folder says", between(0.0, 4096.0));
    v.field("aggregators", aggregators, "collective: MPI-IO hint cb_nodes, ranks that write; 0: MPI's choice",
            size_from(0));
    v.field("aggregators_per_node", aggregators_per_node,
            "collective: MPI-IO hint cb_config_list = \"*:N\"; 0: MPI's choice", size_from(0));
    v.field("hints", hints, "further MPI-IO hints, \"name=value\"", any<std::vector<std::string>>());
  }
};

}  // namespace trireme
