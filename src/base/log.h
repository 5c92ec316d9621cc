// Logging: levels with Python's numbers, one sink per logger, never on a hot path.
//
// A record becomes one or more lines, each with time, level, process and thread in front, and each line reaches the
// descriptor whole: a write is at most PIPE_BUF bytes, so lines of many processes on one pipe do not mix. No lock is
// taken and nothing is buffered, so a fork at any moment is harmless.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace simpler {

enum class LogLevel : int { kDebug = 10, kInfo = 20, kTiming = 25, kWarn = 30, kError = 40, kNul = 60 };

std::string_view to_string(LogLevel level);
// Accepts a name in any case ("warn", "WARNING") or a number; false leaves `level` as it is.
bool parse_log_level(std::string_view text, LogLevel& level);

struct LogRecord {
  LogLevel level;
  std::string_view who;  // the part of the system that speaks, e.g. "worker"
  std::string_view text;
};

using LogSink = std::function<void(const LogRecord&)>;

// Writes to a descriptor that outlives the sink. A reader that stops reading for long loses records, not our time.
LogSink log_to_fd(int fd);

// The lines of one record, each ended by a newline and none longer than `longest` bytes. Control characters are
// escaped.
std::vector<std::string> format_log_lines(const LogRecord& record, std::string_view stamp, size_t longest);

class Logger {
 public:
  explicit Logger(LogLevel level = LogLevel::kWarn, LogSink sink = log_to_fd(2))
      : level_(level), sink_(std::move(sink)) {}
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  bool enabled(LogLevel level) const { return level >= level_.load(std::memory_order_relaxed); }
  void set_level(LogLevel level) { level_.store(level, std::memory_order_relaxed); }
  void log(LogLevel level, std::string_view who, std::string_view text) const {
    if (enabled(level) && level != LogLevel::kNul) sink_({level, who, text});
  }

 private:
  std::atomic<LogLevel> level_;  // a lone value; orders nothing
  LogSink sink_;
};

}  // namespace simpler
