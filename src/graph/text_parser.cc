#include "graph/text_parser.h"

#include <algorithm>
#include <optional>

#include "graph/infer.h"
#include "graph/text_reader.h"
#include "graph/verify.h"

namespace reprise::graph {
namespace {

constexpr int64_t kMaxCores = 1 << 20;
constexpr size_t kMaxTextBytes = size_t{64} << 20;

/// One statement a line; what is named must have been declared above.
class Parser {
 public:
  Parser(std::string_view text, const ops::Registry& registry) : reader_(text), registry_(registry) {}

  Graph parse() {
    reader_.skip_empty_lines();
    if (!reader_.take_word("graph")) reader_.fail("expected 'graph'");
    Graph graph{std::string(reader_.word("the name of the graph"))};
    reader_.expect("{");
    reader_.end_of_line();
    reader_.skip_empty_lines();
    while (!at_statement("return")) {
      statement(graph);
      reader_.skip_empty_lines();
    }
    returned(graph);
    reader_.skip_empty_lines();
    reader_.expect("}");
    reader_.skip_empty_lines();
    if (!reader_.at_end()) reader_.fail("expected nothing behind the graph");
    return graph;
  }

 private:
  /// A keyword, unless an operator of that name is called.
  bool at_statement(std::string_view keyword) {
    return reader_.peek_word() == keyword && reader_.peek_behind_word() != '(';
  }
  bool take_statement(std::string_view keyword) { return at_statement(keyword) && reader_.take_word(keyword); }

  void statement(Graph& graph) {
    const size_t start = reader_.place();
    if (take_statement("symbol")) {
      symbol(graph, start);
    } else if (take_statement("input")) {
      const std::string_view name = new_name(graph);
      reader_.expect(":");
      const size_t place = reader_.place();
      const TensorMeta meta = reader_.meta();
      checked(place, [&] { graph.add_input(name, meta); });
    } else if (take_statement("parameter")) {
      parameter(graph);
    } else if (take_statement("list")) {
      const std::string_view name = new_name(graph);
      reader_.expect(":");
      if (!reader_.take_word("int")) reader_.fail("expected 'int[LENGTH]'");
      reader_.expect("[");
      const size_t place = reader_.place();
      const Dim length = reader_.dim();
      reader_.expect("]");
      checked(place, [&] { graph.add_host_list(name, length); });
    } else if (take_statement("stream")) {
      const size_t place = reader_.place();
      const std::string_view name = reader_.word("the stream's name");
      if (find_stream(graph, name)) reader_.fail_at(place, fmt::format("there is a stream '{}' already", name));
      checked(place, [&] { graph.add_stream(name); });
    } else {
      node(graph);
      return;
    }
    reader_.end_of_line();
  }

  void symbol(Graph& graph, size_t start) {
    const size_t place = reader_.place();
    const std::string expected = fmt::format("s{}", graph.symbols().size());
    if (reader_.word("a symbol") != expected) {
      reader_.fail_at(place, fmt::format("expected '{}': symbols are numbered in order", expected));
    }
    const std::string_view name = reader_.word("the symbol's name");
    reader_.expect("[");
    const int64_t min = reader_.integer(0, kMaxSymbolValue);
    reader_.expect(",");
    const int64_t max = reader_.integer(0, kMaxSymbolValue);
    reader_.expect("]");
    checked(start, [&] { graph.add_symbol(name, min, max); });
  }

  void parameter(Graph& graph) {
    const std::string_view name = new_name(graph);
    const size_t place = reader_.place();
    const std::string label = reader_.string();
    reader_.expect(":");
    const TensorMeta meta = reader_.meta();
    checked(place, [&] { graph.add_parameter(label, meta, name); });
  }

  void node(Graph& graph) {
    const size_t start = reader_.place();
    std::vector<std::string> results;
    if (reader_.peek() == '%') {
      do {
        const size_t place = reader_.place();
        results.emplace_back(new_name(graph));
        if (std::find(results.begin(), results.end() - 1, results.back()) != results.end() - 1) {
          reader_.fail_at(place, fmt::format("%{} is made twice", results.back()));
        }
      } while (reader_.take(","));
      reader_.expect("=");
    }
    const size_t op_place = reader_.place();
    const std::string_view op_name = reader_.word("an operator");
    const ops::OpDef* op = nullptr;
    checked(op_place, [&] { op = &registry_.get(op_name); });
    const ops::Schema& schema = op->schema();
    if (results.size() != schema.outputs.size()) {
      reader_.fail_at(
          start, fmt::format("{} has {} results, {} are named", op->name(), schema.outputs.size(), results.size()));
    }
    NodeArguments arguments;
    read_arguments(graph, *op, arguments);
    read_attributes(*op, arguments);
    std::vector<size_t> meta_places;
    const std::vector<TensorMeta> written = read_metas(results.size(), meta_places);
    read_scopes(graph, arguments);
    arguments.source = std::string(reader_.end_of_line());
    NodeId id = kNoNode;
    checked(start, [&] { id = graph.add_node(*op, std::move(arguments), results); });
    for (size_t i = 0; i < written.size(); ++i) {
      const TensorMeta& meta = graph.value(graph.output_of(id, i)).meta;
      if (written[i] == meta) continue;
      reader_.fail_at(meta_places[i], fmt::format("%{} is written as {}, but {} gives {}", results[i],
                                                  written[i].to_string(), op->name(), meta.to_string()));
    }
  }

  void read_arguments(const Graph& graph, const ops::OpDef& op, NodeArguments& arguments) {
    const size_t tensors = op.schema().tensors.size();
    const size_t expected = tensors + op.schema().lists.size();
    size_t count = 0;
    reader_.expect("(");
    if (!reader_.take(")")) {
      do {
        if (count == expected) reader_.fail(fmt::format("{} takes {} arguments", op.name(), expected));
        (count < tensors ? arguments.inputs : arguments.lists).push_back(argument(graph));
        ++count;
      } while (reader_.take(","));
      reader_.expect(")");
    }
    if (count != expected) reader_.fail(fmt::format("{} takes {} arguments, {} are given", op.name(), expected, count));
  }

  ValueId argument(const Graph& graph) {
    if (reader_.take_word("none")) return kAbsent;
    const size_t place = reader_.place();
    const std::string_view name = reader_.value_name();
    const auto id = graph.find_value(name);
    if (!id) reader_.fail_at(place, fmt::format("%{} is not made above", name));
    return *id;
  }

  void read_attributes(const ops::OpDef& op, NodeArguments& arguments) {
    const auto& specs = op.schema().attributes;
    std::vector<std::optional<ops::Attribute>> given(specs.size());
    if (reader_.take("{")) {
      do {
        const size_t place = reader_.place();
        const std::string_view name = reader_.word("an attribute");
        const auto spec =
            std::find_if(specs.begin(), specs.end(), [&](const ops::AttributeSpec& one) { return one.name == name; });
        if (spec == specs.end()) reader_.fail_at(place, fmt::format("{} has no attribute '{}'", op.name(), name));
        auto& value = given[static_cast<size_t>(spec - specs.begin())];
        if (value) reader_.fail_at(place, fmt::format("attribute '{}' is given twice", name));
        reader_.expect("=");
        value = reader_.attribute(spec->kind);
      } while (reader_.take(","));
      reader_.expect("}");
    }
    for (size_t i = 0; i < specs.size(); ++i) {
      if (!given[i]) given[i] = specs[i].default_value;
      if (!given[i]) reader_.fail(fmt::format("{} needs the attribute '{}'", op.name(), specs[i].name));
      arguments.attributes.push_back(*std::move(given[i]));
    }
  }

  std::vector<TensorMeta> read_metas(size_t count, std::vector<size_t>& places) {
    std::vector<TensorMeta> metas;
    for (size_t i = 0; i < count; ++i) {
      reader_.expect(i == 0 ? ":" : ",");
      places.push_back(reader_.place());
      metas.push_back(reader_.meta());
    }
    return metas;
  }

  void read_scopes(const Graph& graph, NodeArguments& arguments) {
    if (reader_.take_word("on")) {
      const size_t place = reader_.place();
      const std::string_view name = reader_.word("a stream");
      const std::optional<int32_t> stream = find_stream(graph, name);
      if (!stream) reader_.fail_at(place, fmt::format("stream '{}' is not declared above", name));
      arguments.stream = *stream;
    }
    if (!reader_.take_word("limit")) return;
    reader_.expect("(");
    arguments.core_limit.matrix_cores = static_cast<int>(reader_.integer(1, kMaxCores));
    reader_.expect(",");
    arguments.core_limit.vector_cores = static_cast<int>(reader_.integer(0, kMaxCores));
    reader_.expect(")");
  }

  static std::optional<int32_t> find_stream(const Graph& graph, std::string_view name) {
    const auto known = std::find(graph.streams().begin(), graph.streams().end(), name);
    if (known == graph.streams().end()) return std::nullopt;
    return static_cast<int32_t>(known - graph.streams().begin()) + 1;
  }

  void returned(Graph& graph) {
    const size_t place = reader_.place();
    reader_.take_word("return");
    std::vector<ValueId> outputs;
    if (reader_.peek() == '%') {
      do {
        outputs.push_back(argument(graph));
      } while (reader_.take(","));
    }
    reader_.end_of_line();
    checked(place, [&] { graph.set_outputs(std::move(outputs)); });
  }

  std::string_view new_name(const Graph& graph) {
    const size_t place = reader_.place();
    const std::string_view name = reader_.value_name();
    if (graph.find_value(name)) reader_.fail_at(place, fmt::format("there is a %{} already", name));
    return name;
  }

  /// Errors of what the graph refuses, with the place in the text.
  template <typename Call>
  void checked(size_t place, Call&& call) {
    std::optional<Error> refused;
    try {
      call();
    } catch (const Error& error) {
      refused = error;
    }
    if (refused) reader_.fail_at(place, *refused);
  }

  TextReader reader_;
  const ops::Registry& registry_;
};

}  // namespace

Graph parse(std::string_view text, const ops::Registry& registry) {
  if (text.size() > kMaxTextBytes) {
    throw Error(ErrorCode::kCorruptData, "graph text has {} bytes, at most {} are read", text.size(), kMaxTextBytes);
  }
  try {
    Graph graph = Parser(text, registry).parse();
    const std::vector<std::string> found = faults(graph);
    if (!found.empty()) throw Error(ErrorCode::kCorruptData, "{}", found.front());
    return graph;
  } catch (Error& error) {
    error.add_context("graph text");
    throw;
  }
}

}  // namespace reprise::graph
