// The rules by which a tag becomes edges.
//
// | tag                        | waits for                                    | afterwards             |
// | INPUT                      | the last writer of every byte                | is a reader            |
// | OUTPUT, OUTPUT_EXISTING    | readers since, else the last writer          | is the writer          |
// | INOUT                      | readers since, else the last writer          | is the writer          |
// | NO_DEP                     | nothing                                      | is nothing             |
// With `Inference::kWritersOnly` (the documented weaker rules, chosen per worker) readers are not kept, INOUT waits for
// the last writer and OUTPUT waits for nothing: a reader followed by a writer, and two pure outputs, are unordered.
#pragma once

#include <cstdint>

#include "simpler/enums.h"

namespace simpler::graph {

enum class Inference : uint8_t { kFull, kWritersOnly };

// A tag's rule as bits, so that the hot path tests them in a register.
enum RuleBits : uint8_t {
  kWrites = 1,          // becomes the writer
  kWaitsForWriter = 2,  // also under the weaker rules
  kNeedsRead = 4,       // access that the buffer must grant
  kNeedsWrite = 8,
};

inline constexpr uint8_t kTagRules[5] = {
    kWaitsForWriter | kNeedsRead,                          // INPUT
    kWrites,                                               // OUTPUT
    kWrites | kWaitsForWriter | kNeedsRead | kNeedsWrite,  // INOUT
    kWrites | kNeedsWrite,                                 // OUTPUT_EXISTING
    0,                                                     // NO_DEP
};

}  // namespace simpler::graph
