#include "memory/shared_mapping.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/status_macros.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace simpler::memory {
namespace {

uint64_t page_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

Status descriptor_limit(std::string_view what) {
  struct rlimit limit {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return resource_exhausted(std::string(what) + ": the process has no file descriptor left, its limit (ulimit -n) is " +
                            std::to_string(limit.rlim_cur) + "; raise it by at least the number of large buffers");
}

Status failed(int error, const std::string& what) {
  if (error == EMFILE || error == ENFILE) return descriptor_limit(what);
  return system_error(error, what);
}

// A limit on file sizes would end the process with a signal when a file is extended past it.
Status check_file_limit(uint64_t bytes, const std::string& name) {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) {
    return Status::ok();
  }
  return resource_exhausted("shared memory '" + name + "' asks for " + std::to_string(bytes) +
                            " bytes, the limit on file sizes (ulimit -f) is " + std::to_string(limit.rlim_cur) +
                            " bytes; raise it");
}

Result<UniqueFd> make_object(const MappingOptions& options) {
  if (!options.file.empty()) {
    UniqueFd fd(::open(options.file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd) {
      const int error = errno;
      if (error == EEXIST) return already_exists("shared file '" + options.file + "' exists already");
      return failed(error, "shared file '" + options.file + "'");
    }
    return fd;
  }
  UniqueFd fd(memfd_create(options.name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return failed(errno, "shared memory '" + options.name + "'");
  if (fchmod(fd.get(), 0600) != 0) return failed(errno, "permissions of shared memory '" + options.name + "'");
  return fd;
}

}  // namespace

Result<SharedMapping> SharedMapping::map(UniqueFd fd, uint64_t bytes, uint64_t inode, AccessMode access) {
  const int protection = access == AccessMode::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    if (error == ENOMEM) {
      return resource_exhausted("no address space for a shared mapping of " + std::to_string(bytes) +
                                " bytes; check ulimit -v and vm.max_map_count");
    }
    return failed(error, "mapping " + std::to_string(bytes) + " bytes");
  }
  return SharedMapping(static_cast<std::byte*>(data), bytes, std::move(fd), inode);
}

Result<SharedMapping> SharedMapping::create(const MappingOptions& options) {
  if (options.bytes == 0) return invalid_argument("shared memory '" + options.name + "' of 0 bytes");
  if (options.bytes > static_cast<uint64_t>(INT64_MAX)) {
    return invalid_argument("shared memory '" + options.name + "' of " + std::to_string(options.bytes) + " bytes");
  }
  SIMPLER_RETURN_IF_ERROR(check_file_limit(options.bytes, options.name));
  SIMPLER_ASSIGN_OR_RETURN(UniqueFd fd, make_object(options));
  const auto undo = [&options](Status status) {
    if (!options.file.empty()) ::unlink(options.file.c_str());
    return status;
  };
  struct stat info {};
  if (ftruncate(fd.get(), static_cast<off_t>(options.bytes)) != 0 || fstat(fd.get(), &info) != 0) {
    return undo(
        failed(errno, "sizing shared memory '" + options.name + "' to " + std::to_string(options.bytes) + " bytes"));
  }
  // Nobody, not even a child gone wrong, can take mapped bytes away again. Files do not know seals; that is fine.
  if (options.file.empty()) fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  Result<SharedMapping> mapping = map(std::move(fd), options.bytes, info.st_ino, AccessMode::kReadWrite);
  if (!mapping.ok()) return undo(std::move(mapping).status());
  mapping->name_ = options.file.empty() ? options.name : options.file;
  mapping->file_ = options.file;
  mapping->creator_ = getpid();
  mapping->space_ = options.space;
  return mapping;
}

Result<SharedMapping> SharedMapping::open_remote(pid_t pid, int fd, uint64_t inode, uint64_t min_bytes,
                                                 AccessMode access) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  UniqueFd opened(::open(path.c_str(), (access == AccessMode::kRead ? O_RDONLY : O_RDWR) | O_CLOEXEC));
  if (!opened) {
    const int error = errno;
    if (error == ENOENT || error == ENXIO || error == ESRCH) {
      return not_found("descriptor " + std::to_string(fd) + " of process " + std::to_string(pid) + " is gone");
    }
    return failed(error, "opening " + path);
  }
  return map_descriptor(std::move(opened), inode, min_bytes, access);
}

Result<SharedMapping> SharedMapping::map_descriptor(UniqueFd fd, uint64_t inode, uint64_t min_bytes,
                                                    AccessMode access) {
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return failed(errno, "looking at a shared object");
  if (!S_ISREG(info.st_mode) || info.st_ino != inode) {
    return not_found("the descriptor names another object now (inode " + std::to_string(info.st_ino) + ", not " +
                     std::to_string(inode) + ")");
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size == 0 || size < min_bytes) {
    return invalid_argument("the shared object has " + std::to_string(size) + " bytes, " + std::to_string(min_bytes) +
                            " were announced");
  }
  return map(std::move(fd), size, inode, access);
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept {
  *this = std::move(other);
}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  if (this == &other) return *this;
  static_cast<void>(close());
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  fd_ = std::move(other.fd_);
  inode_ = std::exchange(other.inode_, 0);
  name_ = std::move(other.name_);
  file_ = std::exchange(other.file_, {});
  creator_ = other.creator_;
  space_ = other.space_;
  return *this;
}

SharedMapping::~SharedMapping() {
  static_cast<void>(close());
}

Status SharedMapping::secure(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return Status::ok();
  if (offset > bytes_ || bytes > bytes_ - offset) {
    return out_of_range("securing bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) + " of " +
                        std::to_string(bytes_));
  }
  const std::string what = "shared memory '" + name_ + "'";
  SIMPLER_RETURN_IF_ERROR(check_space((space_ != nullptr ? *space_ : system_space()).look(), bytes, what));
  SIMPLER_RETURN_IF_ERROR(check_space(file_space(fd_.get()), bytes, what));
  // In pieces: the kernel undoes a failed request as a whole, and a long one could not be interrupted.
  constexpr uint64_t kPiece = uint64_t{64} << 20;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t piece = std::min(kPiece, bytes - done);
    if (fallocate(fd_.get(), 0, static_cast<off_t>(offset + done), static_cast<off_t>(piece)) == 0) {
      done += piece;
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    if (error == ENOSPC || error == ENOMEM) {
      Space space = file_space(fd_.get());
      if (space.place.empty())
        space = {0, "the machine's overcommit limit", "raise vm.overcommit_ratio or free memory"};
      space.available_bytes = std::min(space.available_bytes, bytes - done - 1);
      return check_space(space, bytes - done, what);
    }
    return failed(error, "securing " + what);
  }
  return Status::ok();
}

void SharedMapping::discard(uint64_t offset, uint64_t bytes) {
  const uint64_t page = page_bytes();
  const uint64_t from = (offset + page - 1) / page * page;
  const uint64_t to = std::min(offset + bytes, bytes_) / page * page;
  if (from >= to) return;
  static_cast<void>(fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                              static_cast<off_t>(to - from)));
}

Status SharedMapping::protect_read_only() {
  if (mprotect(data_, bytes_, PROT_READ) != 0)
    return system_error(errno, "making shared memory '" + name_ + "' read-only");
  return Status::ok();
}

void SharedMapping::prefault(uint64_t offset, uint64_t bytes) const {
  const uint64_t page = page_bytes();
  const uint64_t from = offset / page * page;
  const uint64_t to = std::min(offset + bytes, bytes_);
  if (from < to) madvise(data_ + from, to - from, MADV_POPULATE_WRITE);
}

Status SharedMapping::close() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
  return withdraw();
}

Status SharedMapping::withdraw() {
  fd_.reset();
  if (!file_.empty() && creator_ == getpid()) {
    if (::unlink(file_.c_str()) != 0 && errno != ENOENT) return system_error(errno, "removing '" + file_ + "'");
    file_.clear();
  }
  return Status::ok();
}

Status SecuredFront::grow(uint64_t end) {
  if (end > limit_) {
    return out_of_range("byte " + std::to_string(end) + " lies past the reserved " + std::to_string(limit_));
  }
  const uint64_t target = std::min((end + kSecureStep - 1) / kSecureStep * kSecureStep, limit_);
  SIMPLER_RETURN_IF_ERROR(mapping_->secure(offset_ + secured_, target - secured_));
  secured_ = target;
  return Status::ok();
}

}  // namespace simpler::memory
