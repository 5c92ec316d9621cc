// Status and Result: how every part of simpler reports what went wrong.
//
// A Status is one pointer wide; null means success, so the good path allocates nothing. A failed one owns its code, its
// text and whatever details are known (which worker, which callable, how a process ended). Result<T> is a value or a
// failed Status. Error is the exception that the public C++ API throws; nothing inside the library throws it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace simpler {

enum class StatusCode : uint16_t {
  kOk,
  kInvalidArgument,
  kWrongType,
  kOutOfRange,
  kNotFound,
  kAlreadyExists,
  kFailedPrecondition,
  kResourceExhausted,
  kWouldBlock,
  kTimeout,
  kPeerLost,
  kTaskFailed,
  kSkipped,
  kCancelled,
  kUnsupported,
  kUnavailable,
  kWrongProcess,
  kReentrant,
  kCompileFailed,
  kCorrupt,
  kSystem,
  kInternal,
};

inline constexpr uint16_t kStatusCodeCount = static_cast<uint16_t>(StatusCode::kInternal) + 1;

// The code's name as it appears in messages and documents, e.g. "invalid_argument".
std::string_view to_string(StatusCode code);

class [[nodiscard]] Status {
  struct Details {
    StatusCode code = StatusCode::kInternal;
    std::string message;
    std::string worker_path, callable, task, type_name, traceback;
    int run_code = 0;
    int pid = 0;
    int exit_status = 0;
    int signal = 0;
  };

 public:
  static Status ok() { return Status(); }

  Status() noexcept = default;
  Status(StatusCode code, std::string message);  // kOk gives success and drops the message
  Status(const Status& other) : details_(other.details_ ? std::make_unique<Details>(*other.details_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) details_ = other.details_ ? std::make_unique<Details>(*other.details_) : nullptr;
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool is_ok() const noexcept { return details_ == nullptr; }
  StatusCode code() const noexcept;
  std::string_view message() const noexcept;

  // Details; empty or 0 when unknown.
  std::string_view worker_path() const noexcept;
  std::string_view callable() const noexcept;
  std::string_view task() const noexcept;
  std::string_view type_name() const noexcept;  // the user's exception type
  std::string_view traceback() const noexcept;
  int run_code() const noexcept;  // documented chip code
  int pid() const noexcept;
  int exit_status() const noexcept;
  int signal() const noexcept;

  // Each returns the same status with one more detail; a success stays a success.
  Status with_worker_path(std::string value) &&;
  Status with_callable(std::string value) &&;
  Status with_task(std::string value) &&;
  Status with_type_name(std::string value) &&;
  Status with_traceback(std::string value) &&;
  Status with_run_code(int value) &&;
  Status with_pid(int value) &&;
  Status with_exit_status(int value) &&;
  Status with_signal(int value) &&;
  Status context(std::string_view prefix) &&;  // message becomes "prefix: message"

  // Message and known details in one text, traceback last.
  std::string describe() const;

 private:
  std::unique_ptr<Details> details_;
};

Status invalid_argument(std::string message);
Status wrong_type(std::string message);
Status out_of_range(std::string message);
Status not_found(std::string message);
Status already_exists(std::string message);
Status failed_precondition(std::string message);
Status resource_exhausted(std::string message);
Status would_block(std::string message);
Status timed_out(std::string message);
Status peer_lost(std::string message);
Status task_failed(std::string message);
Status skipped(std::string message);
Status cancelled(std::string message);
Status unsupported(std::string message);
Status unavailable(std::string message);
Status wrong_process(std::string message);
Status reentrant(std::string message);
Status compile_failed(std::string message);
Status corrupt(std::string message);
Status system_error(int error, std::string_view what);  // "what: <text of errno>"
Status internal_error(std::string message);

// A T, or the status that says why there is none. Reading the value of a failed result ends the process.
template <class T>
class [[nodiscard]] Result {
  static_assert(!std::is_reference_v<T> && !std::is_same_v<std::remove_cv_t<T>, Status>);

 public:
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor): `return not_found(...)`
    if (status_.is_ok()) status_ = internal_error("a Result was made of a successful Status without a value");
  }
  template <class U = T>
  requires(std::is_constructible_v<T, U&&> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
           !std::is_same_v<std::remove_cvref_t<U>, Status>) Result(U&& value)
      : value_(std::in_place, std::forward<U>(value)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }

  const Status& status() const& noexcept { return status_; }
  Status status() && noexcept { return std::move(status_); }

  T& value() & { return require(); }
  const T& value() const& { return const_cast<Result*>(this)->require(); }
  T&& value() && { return std::move(require()); }

  T& operator*() & { return require(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(require()); }
  T* operator->() { return &require(); }
  const T* operator->() const { return &value(); }

  template <class U>
  T value_or(U&& fallback) const& {
    return ok() ? *value_ : static_cast<T>(std::forward<U>(fallback));
  }
  template <class U>
  T value_or(U&& fallback) && {
    return ok() ? std::move(*value_) : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  T& require();

  Status status_;
  std::optional<T> value_;
};

namespace internal {
[[noreturn]] void value_of_failed_result(const Status& status);
}

template <class T>
T& Result<T>::require() {
  if (!value_) internal::value_of_failed_result(status_);
  return *value_;
}

// Thrown at the public C++ API only; what() is status().describe().
class Error : public std::runtime_error {
 public:
  explicit Error(Status status)
      : std::runtime_error(status.describe()), status_(std::make_shared<const Status>(std::move(status))) {}

  const Status& status() const noexcept { return *status_; }
  StatusCode code() const noexcept { return status_->code(); }

 private:
  std::shared_ptr<const Status> status_;  // shared, so copying the exception cannot fail
};

}  // namespace simpler
