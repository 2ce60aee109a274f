#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace reprise::text {
namespace {

using nlohmann::json;
using testing::HasSubstr;

JinjaOptions fixed_options() {
  JinjaOptions options;
  std::tm time = {};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 9;
  time.tm_min = 5;
  time.tm_sec = 3;
  time.tm_wday = 5;
  options.now = time;
  return options;
}

JinjaVariables variables_of(std::string_view text) {
  JinjaVariables variables;
  const JinjaValue root = jinja_value_from_json(text, "variables");
  for (const auto& [key, value] : root.mapping()->entries()) variables.emplace_back(key.text()->bytes(), value);
  return variables;
}

MarkedText render(std::string_view source, std::string_view variables = "{}", JinjaLimits limits = {}) {
  JinjaOptions options = fixed_options();
  options.limits = limits;
  return render_jinja(*parse_jinja(source, "t"), variables_of(variables), options);
}

/// Code and message of the error, which must come up.
std::pair<ErrorCode, std::string> error_of(std::string_view source, std::string_view variables = "{}",
                                           JinjaLimits limits = {}) {
  try {
    const MarkedText text = render(source, variables, limits);
    ADD_FAILURE() << source.substr(0, 200) << " renders " << text.bytes().substr(0, 200);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, ""};
}

/// "T" and "I" for each byte's origin.
std::string marks(const MarkedText& text) {
  std::string letters;
  for (size_t i = 0; i < text.size(); ++i) letters += text.origin_at(i) == Origin::kInput ? 'I' : 'T';
  return letters;
}

/// Calls check(entry, template, variables) for each line of a file of vectors but the first, which has the variables;
/// how many there were.
template <typename Check>
int for_each_vector(const std::string& name, Check check) {
  std::ifstream file(REPRISE_SOURCE_DIR "/tests/data/text/" + name);
  std::string line;
  if (!std::getline(file, line)) return 0;
  const JinjaVariables variables = variables_of(line);
  int count = 0;
  for (; std::getline(file, line); ++count) {
    const json entry = json::parse(line);
    const std::string source = entry.at("template");
    SCOPED_TRACE(source);
    check(entry, source, variables);
  }
  return count;
}

TEST(Jinja, RendersAndRefusesAsJinja2Does) {
  const int count = for_each_vector(
      "jinja2.jsonl", [](const json& entry, const std::string& source, const JinjaVariables& variables) {
        try {
          const MarkedText text = render_jinja(*parse_jinja(source, "t"), variables, fixed_options());
          if (entry.contains("rendered")) {
            EXPECT_EQ(text.bytes(), entry.at("rendered").get<std::string>());
          } else {
            ADD_FAILURE() << "renders '" << text.bytes() << "', Jinja2 says: " << entry.at("refused");
          }
        } catch (const Error& error) {
          EXPECT_FALSE(entry.contains("rendered")) << error.what();
          EXPECT_THAT(error.message(), HasSubstr("t:1:"));
          EXPECT_NE(error.code(), ErrorCode::kInternal);
        }
      });
  EXPECT_GE(count, 94);
}

TEST(Jinja, RendersGeneratedTemplatesAsHuggingFacesJinjaDoes) {
  const int count = for_each_vector("generated_templates.jsonl", [](const json& entry, const std::string& source,
                                                                    const JinjaVariables& variables) {
    EXPECT_EQ(render_jinja(*parse_jinja(source, "t"), variables, {}).bytes(), entry.at("rendered").get<std::string>());
  });
  EXPECT_EQ(count, 200);
}

TEST(Jinja, ErrorsNameLineAndColumn) {
  const std::pair<std::string, std::string> cases[] = {
      {"a\n  {{ x | nope }}", "t:2:10: the filter 'nope' is not supported"},
      {"é{{ x is nope }}", "t:1:10: the test 'nope' is not supported"},
      {"\n{% import 'os' as o %}", "t:2:4: the tag 'import' is not supported"},
      {"{% include 'x' %}", "t:1:4: the tag 'include' is not supported"},
      {"{% extends 'x' %}", "t:1:4: the tag 'extends' is not supported"},
      {"{% for x in y recursive %}{% endfor %}", "t:1:15: 'recursive' loops are not supported"},
      {"{{ open('/etc/passwd') }}", "t:1:4: the function 'open' is not supported"},
      {"{{ ''.__class__.mro() }}", "t:1:17: the method 'mro' is not supported"},
      {"{{ x.append(1) }}", "t:1:6: the method 'append' is not supported: templates cannot change"},
      {"{{ '{}'.format(1) }}", "t:1:9: the method 'format' is not supported"},
      {"{{ x | map('nope') }}", "t:1:12: the filter 'nope' is not supported"},
      {"{{ x | select('nope') }}", "t:1:15: the test 'nope' is not supported"},
      {"{{ f(*x) }}", "t:1:6: unpacking arguments"},
  };
  for (const auto& [source, message] : cases) {
    const auto [code, text] = error_of(source);
    EXPECT_EQ(code, ErrorCode::kUnsupported) << source;
    EXPECT_THAT(text, testing::StartsWith(message));
  }
  const std::pair<std::string, std::string> broken[] = {
      {"a\n{{ 1 +", "t:2:1: the tag is not closed"},
      {"{% if x %}\n", "t:1:11: the template ends, expected 'endif'"},
      {"{% endif %}", "t:1:4: 'endif' without the tag that it belongs to"},
      {"{{ a b }}", "t:1:6: unexpected 'b', expected '}}'"},
      {"{{ a ? b }}", "t:1:6: unexpected character '?'"},
      {"{% break %}", "t:1:4: 'break' and 'continue' belong into a loop"},
      {"{{ 99999999999999999999 }}", "t:1:4: the number '99999999999999999999' cannot be represented"},
      {"{{ '\\ud800' }}", "t:1:5: the escape is not a character"},
      {"{% set none = 1 %}", "t:1:8: 'none' cannot be assigned to"},
  };
  for (const auto& [source, message] : broken) {
    const auto [code, text] = error_of(source);
    EXPECT_EQ(code, ErrorCode::kCorruptData) << source;
    EXPECT_EQ(text, message);
  }
  EXPECT_EQ(error_of("\n {{ a.b.c }}", R"({"a":{}})").second, "t:2:9: the mapping has no attribute 'b'");
  EXPECT_EQ(error_of("{{ a\n + 1 }}", R"({"a":"x"})").second, "t:2:2: '+' does not work with string and integer");
  EXPECT_EQ(error_of("{{ raise_exception('Only ' ~ 1) }}").second, "t:1:4: the template refuses the request: Only 1");
  EXPECT_EQ(error_of("x{{ {[1]: 2} }}").second, "t:1:6: a list cannot be a mapping's key");
}

TEST(Jinja, NothingOutsideTheInputCanBeReached) {
  EXPECT_EQ(render("{{ x.__class__ is defined }}{{ x['__class__'] is defined }}", R"({"x":"a"})").bytes(),
            "FalseFalse");
  EXPECT_EQ(render("{{ self is defined }}{{ config is defined }}{{ cycler is defined }}").bytes(), "FalseFalseFalse");
  for (const char* source : {"{{ x.__init__() }}", "{{ lipsum() }}", "{{ x.__class__.__mro__[1].__subclasses__() }}"}) {
    EXPECT_EQ(error_of(source, R"({"x":"a"})").first, ErrorCode::kUnsupported) << source;
  }
  // Methods of a value are not printed: Python would show addresses.
  EXPECT_EQ(error_of("{{ x.strip }}", R"({"x":"a"})").first, ErrorCode::kInvalidArgument);
}

TEST(Jinja, LimitsEndWhatDoesNotEnd) {
  const std::string long_text = "{% set a = ' ' * 100000 %}{% set b = ' ' * 100000 %}{% for i in range(1000) %}";
  const std::string hostile[] = {
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{{ range(9223372036854775807) }}",
      "{{ 'a' * 9223372036854775807 }}",
      "{{ [1] * 9223372036854775807 }}",
      "{{ [] * 9223372036854775807 }}",
      "{{ 'x' | center(9223372036854775807) }}",
      "{{ 'x'.rjust(9223372036854775807) }}",
      "{{ '9'.zfill(9223372036854775807) }}",
      "{{ 'x' | indent(9223372036854775807) }}",
      "{% set ns = namespace(a='aaaaaaaa') %}{% for i in range(99) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
      "{% set ns = namespace(a='aaaaaaaa') %}{% for i in range(99) %}{% set ns.a = ns.a.replace('', ns.a) %}{% endfor "
      "%}",
      "{% set ns = namespace(a=[1]) %}{% for i in range(99) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
      "{% set ns = namespace(a=[1]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
      "{% set ns = namespace(a=[1]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a == "
      "[ns.a] "
      "}}{{ ns.a|tojson }}",
      "{% set ns = namespace(a=[1]) %}{% for i in range(9999) %}{% set ns.a = [ns.a] %}{% endfor %}",
      long_text + "{{ a | length }}{% endfor %}",
      long_text + "{{ a == b }}{% endfor %}",
      long_text + "{{ a <= b }}{% endfor %}",
      long_text + "{{ a.strip() }}{% endfor %}",
      long_text + "{{ a is upper }}{% endfor %}",
      long_text + "{{ {}[a] }}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(a) %}{{ m(a) }}{{ m(a) }}{% endmacro %}{{ m(1) }}",
      "{% for i in range(10000000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
  };
  JinjaLimits limits;
  limits.steps = 300'000;
  limits.bytes = size_t{32} << 20;
  limits.output = size_t{4} << 20;
  for (const std::string& source : hostile) {
    EXPECT_EQ(error_of(source, "{}", limits).first, ErrorCode::kResourceExhausted) << source;
  }
  EXPECT_THAT(error_of("{{ x }}", R"({"x":"aaaaaaaaaa"})", {.output = 9}).second, HasSubstr("9 bytes of text"));
  EXPECT_EQ(render("{{ x }}", R"({"x":"aaaaaaaaaa"})", {.output = 10}).size(), 10u);
}

TEST(Jinja, NestingIsLimitedWhenParsed) {
  const auto repeated = [](std::string_view text, size_t count) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += text;
    return all;
  };
  const size_t count = 50'000;
  const std::string hostile[] = {
      "{{ " + repeated("(", count) + "1" + repeated(")", count) + " }}",
      "{{ " + repeated("[", count) + repeated("]", count) + " }}",
      "{{ " + repeated("not ", count) + "1 }}",
      "{{ " + repeated("-", count) + "1 }}",
      "{{ 1" + repeated("+1", count) + " }}",
      "{{ a" + repeated(".a", count) + " }}",
      "{{ a" + repeated("|d", count) + " }}",
      "{{ a" + repeated(" is defined", count) + " }}",
      "{{ 1" + repeated(" if 1 else 1", count) + " }}",
      "{{ 1" + repeated(" if 1", count) + " }}",
      repeated("{% if 1 %}", count),
      repeated("{% for a in b %}", count),
      "{% set " + repeated("(", count) + "a" + repeated(")", count) + " = 1 %}",
  };
  for (const std::string& source : hostile) {
    EXPECT_EQ(error_of(source).first, ErrorCode::kResourceExhausted) << source.substr(0, 20);
  }
  EXPECT_THAT(error_of("{{ x }}", "{\"x\":" + repeated("[", 1000) + repeated("]", 1000) + "}").second,
              HasSubstr("nested too deep"));
  // What people write is far below.
  EXPECT_EQ(render("{{ 0" + repeated(" + 1", 200) + " }}").bytes(), "200");
  EXPECT_EQ(render(repeated("{% if 1 %}", 60) + "x" + repeated("{% endif %}", 60)).bytes(), "x");
}

TEST(Jinja, CirclesOfValuesAreFreed) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.self = ns %}{% set ns.l = [ns] %}{{ ns == ns.self }}").bytes(),
            "True");
  EXPECT_EQ(render("{% for i in [1] %}{% if loop.changed(loop) %}x{% endif %}{% endfor %}").bytes(), "x");
  EXPECT_EQ(
      render("{% macro m() %}{% macro n() %}{{ m is defined }}{% endmacro %}{{ n() }}{% endmacro %}{{ m() }}").bytes(),
      "True");
}

TEST(Jinja, EveryByteKnowsItsOrigin) {
  const auto marks_of = [](std::string_view source, std::string_view variables) {
    const MarkedText text = render(source, variables);
    return text.bytes() + "/" + marks(text);
  };
  const std::string_view x = R"({"x":"<a>","l":["p","q"],"n":12,"m":{"k":"v"}})";
  EXPECT_EQ(marks_of("<a>{{ x }}", x), "<a><a>/TTTIII");
  EXPECT_EQ(marks_of("{{ '<' + x + '>' }}{{ x ~ n }}", x), "<<a>><a>12/TIIITIIITT");
  EXPECT_EQ(marks_of("{{ (' ' + x + ' ') | trim }}{{ (' ' + x).strip() }}", x), "<a><a>/IIIIII");
  EXPECT_EQ(marks_of("{{ x.replace('a', 'b') }}{{ 'abc'.replace('b', x) }}", x), "<b>a<a>c/ITITIIIT");
  EXPECT_EQ(marks_of("{{ ('ab' + x)[1:4] }}{{ ('a' + x)[::-1] }}", x), "b<a>a<a/TIIIIIT");
  EXPECT_EQ(marks_of("{{ l | join('-') }}{{ '+'.join(l) }}", x), "p-qp+q/ITIITI");
  EXPECT_EQ(marks_of("{{ ('a-' + x).split('-') | last | upper }}", x), "<A>/III");
  EXPECT_EQ(marks_of("{{ m | tojson }}{{ l }}", x), "{\"k\": \"v\"}['p', 'q']/TTITTTTITTTTITTTTITT");
  EXPECT_EQ(marks_of("{% set b %}[{{ x }}]{% endset %}{{ b }}{% macro f(a) %}{{ a }}!{% endmacro %}{{ f(x) }}", x),
            "[<a>]<a>!/TIIITIIIT");
  EXPECT_EQ(marks_of("{% filter title %}a {{ x }}{% endfilter %}{{ x * 2 }}{{ x | e }}", x),
            "A <A><a><a>&lt;a&gt;/TTIIIIIIIIIIIIIIIIII");
}

TEST(Jinja, LineEndsAreNormalised) {
  EXPECT_EQ(render("a\r\n{% if true %}\r\nb\r\n{% endif %}\r\n").bytes(), "a\nb\n");
  EXPECT_EQ(render("a\r\n").bytes(), "a");
  EXPECT_EQ(render("").bytes(), "");
}

TEST(Jinja, ReadsJsonInOrderAndExactly) {
  EXPECT_EQ(render("{{ a | tojson }}", R"({"a":{"z":1,"b":-9223372036854775808,"z":0.1}})").bytes(),
            R"({"z": 0.1, "b": -9223372036854775808})");
  for (const char* text : {"{", "[1", "", "{\"a\":18446744073709551615}", "{\"a\":1e999}", "nul", "\"\\ud800\""}) {
    EXPECT_THROW(jinja_value_from_json(text, "x"), Error) << text;
  }
}

}  // namespace
}  // namespace reprise::text
