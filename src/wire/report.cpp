#include "wire/report.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace simpler::wire {
namespace {

struct Packed {
  uint32_t type_len = 0;
  uint32_t message_len = 0;
  uint32_t traceback_len = 0;
  uint32_t flags = 0;
};

// Copies `text` to the front of `room`, cut with the mark if it is longer; returns the bytes used.
uint32_t put_text(std::span<char>& room, std::string_view text, size_t limit, uint32_t cut_flag, uint32_t& flags) {
  limit = std::min(limit, room.size());
  std::string_view kept = text;
  bool cut = false;
  if (text.size() > limit) {
    cut = true;
    flags |= cut_flag;
    kept = utf8_prefix(text, limit > kCutMark.size() ? limit - kCutMark.size() : 0);
  }
  std::copy(kept.begin(), kept.end(), room.begin());
  size_t used = kept.size();
  if (cut && limit >= used + kCutMark.size()) {
    std::copy(kCutMark.begin(), kCutMark.end(), room.begin() + static_cast<std::ptrdiff_t>(used));
    used += kCutMark.size();
  }
  room = room.subspan(used);
  return static_cast<uint32_t>(used);
}

// The type name may take an eighth, the message three quarters of the rest at least, the traceback what is left.
Packed pack(std::span<char> room, const Failure& failure) {
  Packed packed;
  packed.type_len = put_text(room, failure.type_name, room.size() / 8, kReportTypeCut, packed.flags);
  const size_t spare = failure.traceback.size() < room.size() / 4 ? failure.traceback.size() : room.size() / 4;
  packed.message_len = put_text(room, failure.message, room.size() - spare, kReportMessageCut, packed.flags);
  packed.traceback_len = put_text(room, failure.traceback, room.size(), kReportTracebackCut, packed.flags);
  return packed;
}

Failure unreadable(std::string why) {
  Failure failure;
  failure.code = StatusCode::kCorrupt;
  failure.message = "the child's failure report is unreadable: " + std::move(why);
  return failure;
}

bool unpack(std::span<const char> text, const Packed& lengths, Failure& out) {
  if (uint64_t{lengths.type_len} + lengths.message_len + lengths.traceback_len > text.size()) return false;
  const char* at = text.data();
  out.type_name.assign(at, lengths.type_len);
  out.message.assign(at + lengths.type_len, lengths.message_len);
  out.traceback.assign(at + lengths.type_len + lengths.message_len, lengths.traceback_len);
  out.cut = (lengths.flags & (kReportTypeCut | kReportMessageCut | kReportTracebackCut)) != 0;
  return true;
}

}  // namespace

std::string_view utf8_prefix(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  // Continuation bytes are 10xxxxxx; at most three lie before the cut in a valid text.
  for (int back = 0; back < 3 && end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80; ++back) --end;
  return text.substr(0, end);
}

void write_report(Report& report, SideReport* side, uint32_t sequence, const Failure& failure) {
  const Packed packed = pack(report.text, failure);
  report.sequence = sequence;
  report.code = static_cast<uint16_t>(failure.code);
  report.flags = static_cast<uint16_t>(packed.flags);
  report.run_code = failure.run_code;
  report.type_len = static_cast<uint16_t>(packed.type_len);
  report.message_len = static_cast<uint16_t>(packed.message_len);
  report.traceback_len = static_cast<uint16_t>(packed.traceback_len);
  if (packed.flags == 0 || side == nullptr) return;
  const Packed full = pack(side->text, failure);
  side->sequence = sequence;
  side->type_len = full.type_len;
  side->message_len = full.message_len;
  side->traceback_len = full.traceback_len;
  side->flags = full.flags;
  report.flags = static_cast<uint16_t>(packed.flags | kReportInSide);
}

Failure read_report(const Report& report, const SideReport* side, uint32_t sequence) {
  if (report.sequence != sequence) {
    return unreadable("it belongs to line " + std::to_string(report.sequence) + ", not " + std::to_string(sequence));
  }
  if (report.code == 0 || report.code >= kStatusCodeCount) {
    return unreadable("code " + std::to_string(report.code) + " is not a failure");
  }
  Failure failure;
  failure.code = static_cast<StatusCode>(report.code);
  failure.run_code = report.run_code;
  if ((report.flags & kReportInSide) != 0 && side != nullptr && side->sequence == sequence &&
      unpack(side->text, {side->type_len, side->message_len, side->traceback_len, side->flags}, failure)) {
    return failure;
  }
  if (!unpack(report.text, {report.type_len, report.message_len, report.traceback_len, report.flags}, failure)) {
    return unreadable("its text lengths exceed the record");
  }
  return failure;
}

Status to_status(Failure failure) {
  return Status(failure.code, std::move(failure.message))
      .with_type_name(std::move(failure.type_name))
      .with_traceback(std::move(failure.traceback))
      .with_run_code(failure.run_code);
}

}  // namespace simpler::wire
