// gather (rows by number), mean_pool (mean over the valid rows of an item), topk (largest of a row).
#include <algorithm>
#include <cmath>

#include "kernels/body/kernels.h"
#include "kernels/body/lengths.h"
#include "kernels/body/rows.h"

namespace simpler::kernels::body {

void gather(int64_t* args) {
  Call call("gather", args, 3, 0);
  const auto table = call.float_in(0, "table", 2, 2);
  const auto ids = call.int_in(1, "ids", 1, kMaxRank - 1);
  const auto out = call.float_out(2, "out", 2, kMaxRank);
  if (out.rank != ids.rank + 1) {
    call.refuse("out has rank " + std::to_string(out.rank) +
                ", must be that of ids and 1: " + std::to_string(ids.rank + 1));
  }
  for (int d = 0; d < ids.rank; ++d) {
    call.require_size("a dimension of out", out.shape[d], "that of ids", ids.shape[d]);
  }
  call.require_size("a row of out", out.last(), "a row of table", table.last());
  if (out.empty()) return;
  const Call::Part part = call.part_of(out.rows());
  check_indices(call, ids, part, table.shape[0], "table");
  const Rows<float> out_rows(out);
  for (int64_t row = part.begin; row < part.end; ++row) {
    const RowIn in{table.data + element(ids, row) * table.stride[0], table.last_stride()};
    const RowOut to{out_rows[row], out_rows.step()};
    for_each_piece(out.last(), [&](int64_t i, int64_t n) { to.store(i, n, in.load(i, n)); });
  }
}

void mean_pool(int64_t* args) {
  Call call("mean_pool", args, 3, 0);
  const auto x = call.float_in(0, "x", 3, 3);
  const auto lengths = call.int_in(1, "lengths", 1, 1);
  const auto out = call.float_out(2, "out", 2, 2);
  call.require_size("dimension 0 of out", out.shape[0], "dimension 0 of x", x.shape[0]);
  call.require_size("a row of out", out.last(), "a row of x", x.last());
  if (out.empty()) return;
  check_lengths(call, lengths, out.shape[0], x.shape[1]);
  const int64_t pieces = (out.last() + Lanes::kCount - 1) / Lanes::kCount;
  const Call::Part part = call.part_of(out.shape[0] * pieces);
  for (int64_t unit = part.begin; unit < part.end; ++unit) {
    const int64_t item = unit / pieces, i = unit % pieces * Lanes::kCount;
    const int64_t length = element(lengths, item), n = std::min<int64_t>(Lanes::kCount, out.last() - i);
    Lanes sum = Lanes::zero();
    for (int64_t s = 0; s < length; ++s) {
      sum = sum + RowIn{x.data + item * x.stride[0] + s * x.stride[1], x.last_stride()}.load(i, n);
    }
    if (length > 0) sum = sum / Lanes::broadcast(static_cast<float>(length));
    RowOut{out.data + item * out.stride[0], out.last_stride()}.store(i, n, sum);
  }
}

namespace {

// The k best of a row as a heap inside the outputs, its worst on top. Better: larger, then earlier; NaN is worst.
class Best {
 public:
  Best(float* values, int64_t value_step, int32_t* indices, int64_t index_step)
      : values_(values), indices_(indices), value_step_(value_step), index_step_(index_step) {}

  struct Entry {
    float value;
    int32_t index;
  };
  static bool better(const Entry& a, const Entry& b) {
    const bool a_nan = std::isnan(a.value), b_nan = std::isnan(b.value);
    if (a_nan != b_nan) return b_nan;
    if (!a_nan && a.value != b.value) return a.value > b.value;
    return a.index < b.index;
  }
  Entry get(int64_t i) const { return {values_[i * value_step_], indices_[i * index_step_]}; }
  void set(int64_t i, const Entry& e) const {
    values_[i * value_step_] = e.value;
    indices_[i * index_step_] = e.index;
  }
  void sift_down(int64_t i, int64_t size) const {
    const Entry moving = get(i);
    for (int64_t child = 2 * i + 1; child < size; child = 2 * i + 1) {
      if (child + 1 < size && better(get(child), get(child + 1))) ++child;
      if (better(get(child), moving)) break;
      set(i, get(child));
      i = child;
    }
    set(i, moving);
  }

 private:
  float* values_;
  int32_t* indices_;
  int64_t value_step_, index_step_;
};

void pick_row(const RowIn& in, int64_t columns, int64_t k, const Best& best) {
  for (int64_t i = 0; i < k; ++i) best.set(i, {in.data[i * in.step], static_cast<int32_t>(i)});
  for (int64_t i = k / 2 - 1; i >= 0; --i) best.sift_down(i, k);
  Best::Entry worst = best.get(0);
  for (int64_t i = k; i < columns; ++i) {
    const Best::Entry entry{in.data[i * in.step], static_cast<int32_t>(i)};
    if (!Best::better(entry, worst)) continue;
    best.set(0, entry);
    best.sift_down(0, k);
    worst = best.get(0);
  }
  for (int64_t size = k - 1; size > 0; --size) {  // the worst of the rest goes to the end
    const Best::Entry last = best.get(size);
    best.set(size, best.get(0));
    best.set(0, last);
    best.sift_down(0, size);
  }
}

}  // namespace

void topk(int64_t* args) {
  Call call("topk", args, 3, 0);
  const auto x = call.float_in(0, "x", 1, kMaxRank);
  const auto values = call.float_out(1, "values", 1, kMaxRank);
  const auto indices = call.int_out(2, "indices", 1, kMaxRank);
  call.require_same_shape("values", values, "indices", indices);
  call.require(values.rank == x.rank, "values and x must have the same rank");
  for (int d = 0; d + 1 < x.rank; ++d) {
    call.require_size("a dimension of values", values.shape[d], "that of x", x.shape[d]);
  }
  const int64_t k = values.last(), columns = x.last();
  if (k > columns || columns > INT32_MAX) {
    call.refuse("asks for " + std::to_string(k) + " of rows of " + std::to_string(columns) + " elements");
  }
  if (values.empty()) return;
  const Rows<const float> x_rows(x);
  const Rows<float> value_rows(values);
  const Rows<int32_t> index_rows(indices);
  const Call::Part part = call.part_of(values.rows());
  for (int64_t row = part.begin; row < part.end; ++row) {
    pick_row({x_rows[row], x_rows.step()}, columns, k,
             Best(value_rows[row], value_rows.step(), index_rows[row], index_rows.step()));
  }
}

}  // namespace simpler::kernels::body
