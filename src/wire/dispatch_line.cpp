#include "wire/dispatch_line.h"

namespace simpler::wire {

static_assert(parse(compose(Dispatch{.sequence = 7, .callable = 3, .inline_tensor = {.byte_offset = 9}})) ==
              Dispatch{.sequence = 7, .callable = 3, .inline_tensor = {.byte_offset = 9}});

}  // namespace simpler::wire
