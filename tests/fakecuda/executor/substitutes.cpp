// SPDX-License-Identifier: Apache-2.0
#include "substitutes.h"

#include <string>
#include <unordered_map>

namespace fakecuda::executor {

Substitute substitute_of(const c10::OperatorHandle& op) {
  static const std::unordered_map<std::string, Substitute> all = {
      {"aten::_scaled_dot_product_flash_attention", flash_attention},
      {"aten::_scaled_dot_product_flash_attention_backward", flash_attention_backward},
      {"aten::_scaled_dot_product_efficient_attention", efficient_attention},
      {"aten::_scaled_dot_product_efficient_attention_backward", efficient_attention_backward},
      {"aten::_scaled_dot_product_cudnn_attention", cudnn_attention},
      {"aten::_scaled_dot_product_cudnn_attention_backward", cudnn_attention_backward},
      {"aten::cudnn_batch_norm", cudnn_batch_norm},
      {"aten::cudnn_batch_norm_backward", cudnn_batch_norm_backward},
      {"aten::_thnn_fused_lstm_cell", lstm_cell},
      {"aten::_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward},
      {"aten::_thnn_fused_gru_cell", gru_cell},
      {"aten::_thnn_fused_gru_cell_backward", gru_cell_backward},
      {"aten::native_dropout", dropout},
      {"aten::native_dropout_backward", dropout_backward},
      {"aten::_fused_rms_norm_backward", rms_norm_backward},
  };
  if (op.schema().name() == "aten::batch_norm_elemt" && op.schema().overload_name() == "out") {
    return batch_norm_elementwise;
  }
  if (!op.schema().overload_name().empty()) return nullptr;
  const auto at = all.find(op.schema().name());
  return at == all.end() ? nullptr : at->second;
}

}  // namespace fakecuda::executor
