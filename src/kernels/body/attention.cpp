// attention: softmax(scale * Q K^T) V per head, over the fused projection [batch, length, 3 * hidden].
//
// One unit of work is one head of one item; keys behind the item's length take no part, and rows of the result behind
// it are 0. Blocks share units. Queries go through in groups whose scores fit the scratch of the thread.
#include <algorithm>

#include "kernels/body/gemm.h"
#include "kernels/body/kernels.h"
#include "kernels/body/lengths.h"
#include "kernels/body/softmax.h"

namespace simpler::kernels::body {

namespace {

constexpr int64_t kScoreFloats = 65536;
constexpr int64_t kMostQueries = 128;
thread_local float scores[kScoreFloats];

struct Heads {
  View<const float> qkv;
  View<float> out;
  int64_t heads, width;  // of one head
  float scale;
};

void attend(const Heads& h, int64_t item, int64_t head, int64_t length) {
  const float* base = h.qkv.data + item * h.qkv.stride[0];
  const int64_t row = h.qkv.stride[1], column = h.qkv.stride[2], hidden = h.heads * h.width;
  const float* q = base + head * h.width * column;
  const float* k = q + hidden * column;
  const float* v = k + hidden * column;
  float* out = h.out.data + item * h.out.stride[0] + head * h.width * h.out.stride[2];
  for (int64_t i = length; i < h.out.shape[1]; ++i) {
    RowOut{out + i * h.out.stride[1], h.out.stride[2]}.fill(0, h.width, 0.0F);
  }
  if (length == 0) return;
  const int64_t pitch = (length + Lanes::kCount - 1) / Lanes::kCount * Lanes::kCount;
  const int64_t most = std::clamp<int64_t>(kScoreFloats / pitch, 1, kMostQueries);
  const int64_t groups = (length + most - 1) / most;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = length * group / groups, queries = length * (group + 1) / groups - first;
    gemm({.m = queries,
          .n = length,
          .k = h.width,
          .a = q + first * row,
          .a_row = row,
          .a_col = column,
          .b = k,
          .b_row = column,
          .b_col = row,
          .c = scores,
          .c_row = pitch});
    for (int64_t i = 0; i < queries; ++i) {
      float* line = scores + i * pitch;
      softmax_row({line, 1}, {line, 1}, length, length, h.scale);
    }
    gemm({.m = queries,
          .n = h.width,
          .k = length,
          .a = scores,
          .a_row = pitch,
          .b = v,
          .b_row = row,
          .b_col = column,
          .c = out + first * h.out.stride[1],
          .c_row = h.out.stride[1],
          .c_col = h.out.stride[2]});
  }
}

}  // namespace

void attention(int64_t* args) {
  Call call("attention", args, 3, 2);
  Heads h;
  h.qkv = call.float_in(0, "qkv", 3, 3);
  const auto lengths = call.int_in(1, "lengths", 1, 1);
  h.out = call.float_out(2, "out", 3, 3);
  const uint64_t heads = call.scalar(0);
  h.scale = call.float_scalar(1);
  const int64_t hidden = h.out.last();
  call.require_size("a row of qkv", h.qkv.last(), "three rows of out", 3 * hidden);
  call.require_size("dimension 0 of qkv", h.qkv.shape[0], "dimension 0 of out", h.out.shape[0]);
  call.require_size("dimension 1 of qkv", h.qkv.shape[1], "dimension 1 of out", h.out.shape[1]);
  if (heads == 0 || heads > 65536 || hidden % static_cast<int64_t>(heads) != 0) {
    call.refuse("heads is " + std::to_string(heads) + ", must divide the hidden size " + std::to_string(hidden));
  }
  if (h.out.empty()) return;
  const int64_t length = h.out.shape[1];
  if (length > kScoreFloats) {
    call.refuse("length " + std::to_string(length) + " is above " + std::to_string(kScoreFloats));
  }
  check_lengths(call, lengths, h.out.shape[0], length);
  h.heads = static_cast<int64_t>(heads);
  h.width = hidden / h.heads;
  const Call::Part part = call.part_of(h.out.shape[0] * h.heads);
  for (int64_t unit = part.begin; unit < part.end; ++unit) {
    const int64_t item = unit / h.heads;
    attend(h, item, unit % h.heads, element(lengths, item));
  }
}

}  // namespace simpler::kernels::body
