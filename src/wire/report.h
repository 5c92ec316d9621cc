// Why a task failed, as its child wrote it: one record of 1 KiB beside each line, and one side area per lane for long
// text.
//
// The child fills the record before it answers TASK_FAILED, so the parent's acquire of the line covers it. Text that
// was cut says so in its flag and ends with a mark; cuts fall between UTF-8 characters. Readers trust no length.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "simpler/status.h"
#include "wire/layout.h"

namespace simpler::wire {

inline constexpr uint32_t kReportBytes = 1024;
inline constexpr uint32_t kSideBytes = 16384;
inline constexpr std::string_view kCutMark = " [cut]";

enum ReportFlags : uint16_t { kReportTypeCut = 1, kReportMessageCut = 2, kReportTracebackCut = 4, kReportInSide = 8 };

// Text is packed: type name, message, traceback.
struct Report {
  uint32_t sequence;
  uint16_t code;  // StatusCode
  uint16_t flags;
  int32_t run_code;  // documented chip code, 0 = none
  uint16_t type_len;
  uint16_t message_len;
  uint16_t traceback_len;
  std::array<char, kReportBytes - 18> text;
};

// One long failure of a lane in full (within its size). The child writes the next one only after the parent has taken
// this one; until then longer text is cut to what a record holds.
struct SideReport {
  uint32_t sequence;  // of the line that it belongs to
  uint32_t type_len;
  uint32_t message_len;
  uint32_t traceback_len;
  uint32_t flags;
  std::array<char, kSideBytes - 20> text;
};
static_assert(WireRecord<Report> && WireRecord<SideReport>);

struct Failure {
  StatusCode code = StatusCode::kTaskFailed;
  int32_t run_code = 0;
  std::string type_name;
  std::string message;
  std::string traceback;
  bool cut = false;  // some text did not fit
};

// Writes the record; when something does not fit it also writes `side` (if given) and says so in the record.
void write_report(Report& report, SideReport* side, uint32_t sequence, const Failure& failure);
// Reads what the child left for that sequence. Lengths that do not fit, a foreign sequence or an unknown code yield a
// kCorrupt failure that says so.
Failure read_report(const Report& report, const SideReport* side, uint32_t sequence);
// The same as a Status with its details set.
Status to_status(Failure failure);

// The longest prefix of at most `limit` bytes that does not split a UTF-8 character.
std::string_view utf8_prefix(std::string_view text, size_t limit);

}  // namespace simpler::wire
