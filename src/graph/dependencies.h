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

// What an argument needs of its buffer and does to it; the access bits are those of EntryAccess.
enum EntryAccess : uint8_t { kReadable = 1, kWritable = 2 };

struct TagRule {
  uint8_t needs;  // access bits
  bool waits_for_writer;
  bool writes;
};

inline constexpr TagRule kTagRules[5] = {
    {kReadable, true, false},             // INPUT
    {0, false, true},                     // OUTPUT
    {kReadable | kWritable, true, true},  // INOUT
    {kWritable, false, true},             // OUTPUT_EXISTING
    {0, false, false},                    // NO_DEP
};

constexpr const TagRule& rule_of(TensorArgType tag) {
  return kTagRules[static_cast<uint8_t>(tag)];
}

}  // namespace simpler::graph
