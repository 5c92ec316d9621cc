#include "base/log.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <limits.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

namespace simpler {
namespace {

constexpr std::array<std::pair<LogLevel, std::string_view>, 6> kNames = {{{LogLevel::kDebug, "DEBUG"},
                                                                          {LogLevel::kInfo, "INFO"},
                                                                          {LogLevel::kTiming, "TIMING"},
                                                                          {LogLevel::kWarn, "WARN"},
                                                                          {LogLevel::kError, "ERROR"},
                                                                          {LogLevel::kNul, "NUL"}}};

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else if (c == '\t') {
      out += ' ';
    } else {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\x%02x", static_cast<unsigned>(byte));
      out += code.data();
    }
  }
  return out;
}

// How many bytes of `text` fit into `room` without cutting a UTF-8 sequence.
size_t whole_prefix(std::string_view text, size_t room) {
  if (text.size() <= room) return text.size();
  size_t cut = room;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;
  return cut > 0 ? cut : room;
}

std::string stamp_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 48> text{};
  const size_t length = strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + length, text.size() - length, ".%06ldZ", now.tv_nsec / 1000);
  return text.data();
}

// Writes one piece of at most PIPE_BUF bytes; waits a bounded time for a full pipe, then drops it.
void write_piece(int fd, std::string_view piece) {
  constexpr int kPatienceMs = 1000;
  while (!piece.empty()) {
    const ssize_t written = ::write(fd, piece.data(), piece.size());
    if (written > 0) {
      piece.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      if (::poll(&wait, 1, kPatienceMs) == 0) return;
    } else if (written == 0 || errno != EINTR) {
      return;
    }
  }
}

}  // namespace

std::string_view to_string(LogLevel level) {
  for (const auto& [value, name] : kNames) {
    if (value == level) return name;
  }
  return "LOG";
}

bool parse_log_level(std::string_view text, LogLevel& level) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) {
    if (number < 0 || number > static_cast<int>(LogLevel::kNul)) return false;
    level = static_cast<LogLevel>(number);
    return true;
  }
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (upper == "WARNING") upper = "WARN";
  for (const auto& [value, name] : kNames) {
    if (name != upper) continue;
    level = value;
    return true;
  }
  return false;
}

std::vector<std::string> format_log_lines(const LogRecord& record, std::string_view stamp, size_t longest) {
  std::string prefix(stamp);
  prefix.append(" simpler ").append(to_string(record.level)).append(" [").append(std::to_string(::getpid()));
  prefix.append("/").append(std::to_string(::gettid())).append("] ").append(record.who).append(": ");
  const size_t room = longest > prefix.size() + 16 ? longest - prefix.size() - 1 : 16;

  std::vector<std::string> lines;
  std::string_view rest = record.text;
  while (true) {
    const size_t newline = rest.find('\n');
    const std::string escaped = escape(rest.substr(0, newline));
    std::string_view piece = escaped;
    do {
      const size_t take = whole_prefix(piece, room);
      lines.push_back(prefix + std::string(piece.substr(0, take)) + "\n");
      piece.remove_prefix(take);
    } while (!piece.empty());
    if (newline == std::string_view::npos || newline + 1 == rest.size()) return lines;
    rest.remove_prefix(newline + 1);
  }
}

LogSink log_to_fd(int fd) {
  return [fd](const LogRecord& record) {
    std::string piece;
    for (const std::string& line : format_log_lines(record, stamp_now(), PIPE_BUF)) {
      if (piece.size() + line.size() > PIPE_BUF) {
        write_piece(fd, piece);
        piece.clear();
      }
      piece += line;
    }
    write_piece(fd, piece);
  };
}

}  // namespace simpler
