#pragma once

#include <string_view>

namespace reprise::server {

/// page/page.html, which the build puts into the program: one file that needs no other.
std::string_view page_html();

}  // namespace reprise::server
