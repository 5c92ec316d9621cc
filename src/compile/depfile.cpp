// Makefile rules; see depfile.h.
#include "compile/depfile.h"

namespace simpler::compile {

std::vector<std::string> parse_depfile(std::string_view text) {
  std::vector<std::string> files;
  std::string word;
  bool after_colon = false;
  const auto finish_word = [&] {
    if (!word.empty() && after_colon) files.push_back(word);
    word.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\\' && next == '\n') {  // the rule goes on in the next line
      finish_word();
      ++i;
    } else if (c == '\\' && (next == ' ' || next == '#' || next == '\\' || next == ':')) {
      word += next;
      ++i;
    } else if (c == '$' && next == '$') {
      word += '$';
      ++i;
    } else if (c == ':' && !after_colon) {
      word.clear();
      after_colon = true;
    } else if (c == ' ' || c == '\t') {
      finish_word();
    } else if (c == '\n') {
      finish_word();
      if (after_colon) break;
    } else {
      word += c;
    }
  }
  finish_word();
  return files;
}

}  // namespace simpler::compile
