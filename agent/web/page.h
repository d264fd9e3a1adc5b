// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cinch::web {

/// The page's parts, embedded when Cinch is built: its styles, its script (an object `cinchReport`
/// with `render(element, report)`), and the HTML, with placeholders for both and for the data.
std::string_view report_css() noexcept;
std::string_view report_js() noexcept;
std::string_view report_html() noexcept;

/// One self-contained page that shows a report and needs no network.
/// @param report_json What telemetry::to_json wrote
std::string report_page(std::string_view report_json);

}  // namespace cinch::web
