// For tests of the engine and its driver: tables, arena and heap of a level, a lane that a test answers by hand, and a
// lane whose child is a thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/wake_word.h"
#include "engine/engine.h"
#include "simpler/tensor.h"

namespace simpler::engine {

struct Level {
  explicit Level(uint32_t window = 256, uint64_t region_bytes = 2 << 20)
      : tables(std::move(*memory::SharedTables::create())),
        arena(std::move(*memory::ArgsArena::create({.slots = window, .large_bytes = 1 << 20}))),
        heap(std::move(*memory::Heap::create({.region_bytes = region_bytes}))) {
    for (auto& buffer : buffers) buffer = add_buffer(AccessMode::kReadWrite);
    cell = layout({1});
  }
  BufferDescriptor describe(AccessMode access = AccessMode::kReadWrite) {
    BufferDescriptor descriptor;
    descriptor.identity = tables->mint_identity();
    descriptor.nbytes = 1 << 20;
    descriptor.access = access;
    set_body_address(descriptor, 0x1000);
    return descriptor;
  }
  memory::BufferRef add_buffer(AccessMode access) { return *tables->put_buffer(describe(access)); }
  uint32_t layout(std::vector<uint32_t> shape) {
    return tables->intern_layout(*make_tensor(describe(), shape, DataType::kInt64, {}, 0));
  }
  wire::TensorRef view(memory::BufferRef buffer, uint64_t index = 0) const {
    return {buffer.index, buffer.generation, cell, 0, index * 8};
  }

  std::unique_ptr<memory::SharedTables> tables;
  std::unique_ptr<memory::ArgsArena> arena;
  std::unique_ptr<memory::Heap> heap;
  std::array<memory::BufferRef, 4> buffers;
  uint32_t cell = 0;
};

struct Argument {
  wire::TensorRef tensor;
  TensorArgType tag;
};

// A request that owns what it points to.
struct Request {
  std::vector<wire::TensorRef> tensors;
  std::vector<TensorArgType> tags;
  MemberArgs member;
  TaskRequest request;

  explicit Request(const std::vector<Argument>& arguments = {}, uint32_t worker = 0,
                   WorkerType type = WorkerType::kNextLevel) {
    for (const Argument& argument : arguments) {
      tensors.push_back(argument.tensor);
      tags.push_back(argument.tag);
    }
    member = {tensors, tags, {}, worker};
    request.type = type;
    request.callable = 1;
    request.members = {&member, 1};
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
};

// Keeps what was pushed until the test answers it.
class HandLane final : public lane::Lane {
 public:
  explicit HandLane(WorkerType type = WorkerType::kNextLevel, uint32_t worker = 0, uint32_t depth = 32) {
    info_.type = type;
    info_.worker_id = worker;
    info_.queue_depth = depth;
  }
  const lane::LaneInfo& info() const override { return info_; }
  uint32_t free_lines() const override {
    return alive() ? info_.queue_depth - static_cast<uint32_t>(lines.size() - polled_) : 0;
  }
  void push_line(const wire::LineWords& line) override { lines.push_back(wire::parse(line)); }
  uint32_t poll(std::span<lane::Completion> out) override {
    uint32_t count = 0;
    if (mute_) return 0;
    while (polled_ < (alive() ? outcomes.size() : lines.size()) && count < out.size()) {
      const lane::Outcome outcome = polled_ < outcomes.size() ? outcomes[polled_] : lane::Outcome::kEndpointFailure;
      out[count++] = {static_cast<uint32_t>(polled_ % 32), lines[polled_].slot, lines[polled_].slot_generation,
                      outcome};
      ++polled_;
    }
    return count;
  }
  Status take_failure(const lane::Completion& completion) override {
    return completion.outcome == lane::Outcome::kEndpointFailure ? health_
                                                                 : task_failed("a task of a hand lane failed");
  }
  void cancel(uint32_t run_low32) override { cancelled.push_back(run_low32); }
  void lose(Status why) override {
    end_life();
    health_ = std::move(why);
    mute_ = false;
  }
  // As a lane whose child answered nonsense: no more work, no answers, not lost.
  void condemn() {
    end_life();
    health_ = corrupt("the child answered nonsense");
    mute_ = true;
  }
  Status health() const override { return health_; }

  // Answers the oldest unanswered line.
  void answer(lane::Outcome outcome = lane::Outcome::kSuccess) { outcomes.push_back(outcome); }

  std::vector<wire::Dispatch> lines;
  std::vector<lane::Outcome> outcomes;
  std::vector<uint32_t> cancelled;

 private:
  lane::LaneInfo info_;
  size_t polled_ = 0;
  bool mute_ = false;
  Status health_;
};

// The child is a thread that runs `body` for each line and rings the doorbell after each answer.
class ThreadLane final : public lane::Lane {
 public:
  using Body = std::function<lane::Outcome(const wire::Dispatch&)>;
  ThreadLane(WorkerType type, uint32_t worker, WakeWord& doorbell, WakePolicy& policy, Body body)
      : doorbell_(doorbell), policy_(policy), body_(std::move(body)) {
    info_.type = type;
    info_.worker_id = worker;
    child_ = std::thread([this] { serve(); });
  }
  ~ThreadLane() override { stop(); }
  void stop() {
    stopping_.store(true, std::memory_order_release);
    wake(word_);
    if (child_.joinable()) child_.join();
  }

  const lane::LaneInfo& info() const override { return info_; }
  uint32_t free_lines() const override {
    return alive() ? 32 - (pushed_.load(std::memory_order_relaxed) - polled_) : 0;
  }
  void push_line(const wire::LineWords& line) override {
    const uint32_t at = pushed_.load(std::memory_order_relaxed);
    lines_[at % 32] = wire::parse(line);
    pushed_.store(at + 1, std::memory_order_release);  // pairs with the child's acquire
    wake(word_);
  }
  uint32_t poll(std::span<lane::Completion> out) override {
    const uint32_t ended =
        alive() ? answered_.load(std::memory_order_acquire) : pushed_.load(std::memory_order_relaxed);
    uint32_t count = 0;
    while (polled_ != ended && count < out.size()) {
      const wire::Dispatch& line = lines_[polled_ % 32];
      const bool answered = static_cast<int32_t>(answered_.load(std::memory_order_acquire) - polled_) > 0;
      out[count++] = {polled_ % 32, line.slot, line.slot_generation,
                      answered ? outcomes_[polled_ % 32] : lane::Outcome::kEndpointFailure};
      ++polled_;
    }
    return count;
  }
  Status take_failure(const lane::Completion&) override {
    return alive() ? task_failed("a thread's task failed") : health_;
  }
  void cancel(uint32_t run_low32) override { cancelled_.store(run_low32, std::memory_order_release); }
  // The owner has stopped the child before.
  void lose(Status why) override {
    end_life();
    health_ = std::move(why);
  }
  Status health() const override { return health_; }
  // Lines that the child has answered, whether or not they were polled.
  uint32_t answered() const { return answered_.load(std::memory_order_acquire); }

 private:
  void serve() {
    std::array<bool, 32> good{};
    uint32_t next = 0;
    while (true) {
      wait(word_, policy_, Deadline::never(), [&] {
        return stopping_.load(std::memory_order_acquire) || pushed_.load(std::memory_order_acquire) != next;
      });
      if (stopping_.load(std::memory_order_acquire)) return;
      const wire::Dispatch line = lines_[next % 32];
      bool skip = cancelled_.load(std::memory_order_acquire) == line.run;
      for (uint32_t bit = 0; bit < 32; ++bit) {
        if (((line.after_mask >> bit) & 1) != 0 && !good[(next - 1 - bit) % 32]) skip = true;
      }
      const lane::Outcome outcome = skip ? lane::Outcome::kSkipped : body_(line);
      good[next % 32] = outcome == lane::Outcome::kSuccess;
      outcomes_[next % 32] = outcome;
      answered_.store(++next, std::memory_order_release);  // pairs with poll
      wake(doorbell_);
    }
  }

  lane::LaneInfo info_;
  WakeWord& doorbell_;
  WakePolicy& policy_;
  Body body_;
  WakeWord word_;
  std::atomic<uint32_t> pushed_{0};
  std::atomic<uint32_t> answered_{0};
  std::atomic<uint32_t> cancelled_{0};
  std::atomic<bool> stopping_{false};
  std::array<wire::Dispatch, 32> lines_;
  std::array<lane::Outcome, 32> outcomes_{};
  uint32_t polled_ = 0;
  Status health_;
  std::thread child_;
};

}  // namespace simpler::engine
