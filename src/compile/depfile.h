// Reads the list of included files that a compiler writes with -MMD, in the syntax of makefiles.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace simpler::compile {

// The prerequisites of the first rule, the source itself among them.
std::vector<std::string> parse_depfile(std::string_view text);

}  // namespace simpler::compile
