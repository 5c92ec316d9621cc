#include "simpler/status.h"

#include <array>
#include <cstring>

namespace simpler {

std::string_view to_string(StatusCode code) {
  static constexpr std::array<std::string_view, kStatusCodeCount> kNames = {"ok",
                                                                            "invalid_argument",
                                                                            "wrong_type",
                                                                            "out_of_range",
                                                                            "not_found",
                                                                            "already_exists",
                                                                            "failed_precondition",
                                                                            "resource_exhausted",
                                                                            "would_block",
                                                                            "timeout",
                                                                            "peer_lost",
                                                                            "task_failed",
                                                                            "skipped",
                                                                            "cancelled",
                                                                            "unsupported",
                                                                            "unavailable",
                                                                            "wrong_process",
                                                                            "reentrant",
                                                                            "compile_failed",
                                                                            "corrupt",
                                                                            "system",
                                                                            "internal"};
  const auto index = static_cast<uint16_t>(code);
  return index < kNames.size() ? kNames[index] : std::string_view("unknown");
}

Status::Status(StatusCode code, std::string message) {
  if (code == StatusCode::kOk) return;
  details_ = std::make_unique<Details>();
  details_->code = code;
  details_->message = std::move(message);
}

StatusCode Status::code() const noexcept {
  return details_ ? details_->code : StatusCode::kOk;
}
std::string_view Status::message() const noexcept {
  return details_ ? details_->message : std::string_view();
}
std::string_view Status::worker_path() const noexcept {
  return details_ ? details_->worker_path : std::string_view();
}
std::string_view Status::callable() const noexcept {
  return details_ ? details_->callable : std::string_view();
}
std::string_view Status::task() const noexcept {
  return details_ ? details_->task : std::string_view();
}
std::string_view Status::type_name() const noexcept {
  return details_ ? details_->type_name : std::string_view();
}
std::string_view Status::traceback() const noexcept {
  return details_ ? details_->traceback : std::string_view();
}
int Status::run_code() const noexcept {
  return details_ ? details_->run_code : 0;
}
int Status::pid() const noexcept {
  return details_ ? details_->pid : 0;
}
int Status::exit_status() const noexcept {
  return details_ ? details_->exit_status : 0;
}
int Status::signal() const noexcept {
  return details_ ? details_->signal : 0;
}

Status Status::with_worker_path(std::string value) && {
  if (details_) details_->worker_path = std::move(value);
  return std::move(*this);
}
Status Status::with_callable(std::string value) && {
  if (details_) details_->callable = std::move(value);
  return std::move(*this);
}
Status Status::with_task(std::string value) && {
  if (details_) details_->task = std::move(value);
  return std::move(*this);
}
Status Status::with_type_name(std::string value) && {
  if (details_) details_->type_name = std::move(value);
  return std::move(*this);
}
Status Status::with_traceback(std::string value) && {
  if (details_) details_->traceback = std::move(value);
  return std::move(*this);
}
Status Status::with_run_code(int value) && {
  if (details_) details_->run_code = value;
  return std::move(*this);
}
Status Status::with_pid(int value) && {
  if (details_) details_->pid = value;
  return std::move(*this);
}
Status Status::with_exit_status(int value) && {
  if (details_) details_->exit_status = value;
  return std::move(*this);
}
Status Status::with_signal(int value) && {
  if (details_) details_->signal = value;
  return std::move(*this);
}
Status Status::context(std::string_view prefix) && {
  if (details_) details_->message = std::string(prefix) + ": " + details_->message;
  return std::move(*this);
}

std::string Status::describe() const {
  if (!details_) return "ok";
  const Details& d = *details_;
  std::string notes;
  const auto note = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    notes += notes.empty() ? " (" : ", ";
    notes.append(name).append(" ").append(value);
  };
  const auto number = [](int value) { return value == 0 ? std::string() : std::to_string(value); };
  note("worker", d.worker_path);
  note("callable", d.callable);
  note("task", d.task);
  note("exception", d.type_name);
  note("run code", number(d.run_code));
  note("pid", number(d.pid));
  note("exit status", number(d.exit_status));
  note("signal", number(d.signal));
  if (!notes.empty()) notes += ")";
  std::string text = d.message + notes;
  if (!d.traceback.empty()) text += "\n" + d.traceback;
  return text;
}

Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
Status wrong_type(std::string message) {
  return {StatusCode::kWrongType, std::move(message)};
}
Status out_of_range(std::string message) {
  return {StatusCode::kOutOfRange, std::move(message)};
}
Status not_found(std::string message) {
  return {StatusCode::kNotFound, std::move(message)};
}
Status already_exists(std::string message) {
  return {StatusCode::kAlreadyExists, std::move(message)};
}
Status failed_precondition(std::string message) {
  return {StatusCode::kFailedPrecondition, std::move(message)};
}
Status resource_exhausted(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}
Status would_block(std::string message) {
  return {StatusCode::kWouldBlock, std::move(message)};
}
Status timed_out(std::string message) {
  return {StatusCode::kTimeout, std::move(message)};
}
Status peer_lost(std::string message) {
  return {StatusCode::kPeerLost, std::move(message)};
}
Status task_failed(std::string message) {
  return {StatusCode::kTaskFailed, std::move(message)};
}
Status skipped(std::string message) {
  return {StatusCode::kSkipped, std::move(message)};
}
Status cancelled(std::string message) {
  return {StatusCode::kCancelled, std::move(message)};
}
Status unsupported(std::string message) {
  return {StatusCode::kUnsupported, std::move(message)};
}
Status unavailable(std::string message) {
  return {StatusCode::kUnavailable, std::move(message)};
}
Status wrong_process(std::string message) {
  return {StatusCode::kWrongProcess, std::move(message)};
}
Status reentrant(std::string message) {
  return {StatusCode::kReentrant, std::move(message)};
}
Status compile_failed(std::string message) {
  return {StatusCode::kCompileFailed, std::move(message)};
}
Status corrupt(std::string message) {
  return {StatusCode::kCorrupt, std::move(message)};
}
Status internal_error(std::string message) {
  return {StatusCode::kInternal, std::move(message)};
}

Status system_error(int error, std::string_view what) {
  std::array<char, 128> buffer{};
  const char* text = ::strerror_r(error, buffer.data(), buffer.size());  // the GNU form returns the text
  return {StatusCode::kSystem, std::string(what) + ": " + text};
}

}  // namespace simpler
