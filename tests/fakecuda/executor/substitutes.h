// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call.h"

namespace fakecuda::executor {

/// The substitute for an operator that only CUDA has, or that CUDA and the CPU compute differently.
/// Null when the CPU's kernel is right.
Substitute substitute_of(const c10::OperatorHandle& op);

/// Makes scaled_dot_product_attention choose for CUDA as it does for the CPU.
void choose_attention();

// Each takes the operator's arguments and leaves its results (PyTorch's native_functions.yaml).

// attention.cpp
void flash_attention(std::vector<at::IValue>& stack);
void flash_attention_backward(std::vector<at::IValue>& stack);
void efficient_attention(std::vector<at::IValue>& stack);
void efficient_attention_backward(std::vector<at::IValue>& stack);
void cudnn_attention(std::vector<at::IValue>& stack);
void cudnn_attention_backward(std::vector<at::IValue>& stack);

// recurrent.cpp
void lstm_cell(std::vector<at::IValue>& stack);
void lstm_cell_backward(std::vector<at::IValue>& stack);
void gru_cell(std::vector<at::IValue>& stack);
void gru_cell_backward(std::vector<at::IValue>& stack);

// fused.cpp
void dropout(std::vector<at::IValue>& stack);
void dropout_backward(std::vector<at::IValue>& stack);
void rms_norm_backward(std::vector<at::IValue>& stack);
void batch_norm_elementwise(std::vector<at::IValue>& stack);
void cudnn_batch_norm(std::vector<at::IValue>& stack);
void cudnn_batch_norm_backward(std::vector<at::IValue>& stack);

}  // namespace fakecuda::executor
