// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The live page's parts: the texts of agent/daemon/page.{html,js,css}.
namespace cinch::daemon {

const char* page_html() noexcept;
const char* page_script() noexcept;
const char* page_style() noexcept;

}  // namespace cinch::daemon
