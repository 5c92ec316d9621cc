// softmax and softmax_masked over the last dimension.
#include "kernels/body/softmax.h"

#include "kernels/body/kernels.h"
#include "kernels/body/lengths.h"

namespace simpler::kernels::body {

void softmax(int64_t* args) {
  Call call("softmax", args, 2, 1);
  const auto x = call.float_in(0, "x", 1, kMaxRank);
  const auto out = call.float_out(1, "out", 1, kMaxRank);
  call.require_same_shape("x", x, "out", out);
  const float scale = call.float_scalar(0);
  if (out.empty()) return;
  const Rows<const float> x_rows(x);
  const Rows<float> out_rows(out);
  const Call::Part part = call.part_of(out.rows());
  for (int64_t row = part.begin; row < part.end; ++row) {
    softmax_row({x_rows[row], x_rows.step()}, {out_rows[row], out_rows.step()}, out.last(), out.last(), scale);
  }
}

void softmax_masked(int64_t* args) {
  Call call("softmax_masked", args, 3, 1);
  const auto x = call.float_in(0, "x", 2, kMaxRank);
  const auto lengths = call.int_in(1, "lengths", 1, 1);
  const auto out = call.float_out(2, "out", 2, kMaxRank);
  call.require_same_shape("x", x, "out", out);
  const float scale = call.float_scalar(0);
  if (out.empty()) return;
  check_lengths(call, lengths, out.shape[0], out.last());
  const Rows<const float> x_rows(x);
  const Rows<float> out_rows(out);
  const Call::Part part = call.part_of(out.rows());
  const int64_t rows_per_item = out.rows() / out.shape[0];
  for (int64_t row = part.begin; row < part.end; ++row) {
    softmax_row({x_rows[row], x_rows.step()}, {out_rows[row], out_rows.step()}, element(lengths, row / rows_per_item),
                out.last(), scale);
  }
}

}  // namespace simpler::kernels::body
