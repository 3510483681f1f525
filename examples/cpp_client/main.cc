// Answers lines of texts, or of token ids, with an exported model:
//
//   client SAVED_MODEL [OPERATOR_LIBRARY...] < lines > answers
//
// The model is loaded as TensorFlow Serving loads it, in a process without
// Python: LoadSavedModel with the tag "serve". So what this program answers is
// what a server answers. Each answer is one line of JSON.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/public/session.h"

namespace {

using ::tensorflow::Tensor;

// The columns of each line of a batch.
using Rows = std::vector<std::vector<std::string>>;
// Names as the signature has them, in alphabetical order.
using NamedTensors = std::map<std::string, Tensor>;
using TensorInfos = std::map<std::string, tensorflow::TensorInfo>;

constexpr int kBatchSize = 64;

// How many texts of a line are an input: one, or one for each choice.
absl::StatusOr<int64_t> TextsOfLine(const std::string& name,
                                    const tensorflow::TensorInfo& info) {
  const auto& shape = info.tensor_shape();
  const int64_t texts = shape.dim_size() == 2 ? shape.dim(1).size() : 1;
  if (info.dtype() != tensorflow::DT_STRING || shape.dim_size() < 1 ||
      shape.dim_size() > 2 || texts < 1) {
    return absl::UnimplementedError(absl::StrCat(
        "the model's input '", name, "' is not texts for each line"));
  }
  return texts;
}

// The inputs take the columns from left to right.
absl::StatusOr<NamedTensors> TextInputs(const TensorInfos& infos,
                                        const Rows& rows) {
  const auto count = static_cast<int64_t>(rows.size());
  NamedTensors inputs;
  std::vector<std::string> expected;
  for (const auto& [name, info] : infos) {
    const auto texts = TextsOfLine(name, info);
    TF_RETURN_IF_ERROR(texts.status());
    expected.insert(expected.end(), *texts, name);
    inputs[name] = info.tensor_shape().dim_size() == 2
                       ? Tensor(tensorflow::DT_STRING, {count, *texts})
                       : Tensor(tensorflow::DT_STRING, {count});
  }
  for (int64_t row = 0; row < count; ++row) {
    const auto& columns = rows[row];
    if (columns.size() != expected.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("received ", columns.size(), " columns; expected ",
                       expected.size(), ": ", absl::StrJoin(expected, ", ")));
    }
    auto column = columns.begin();
    for (auto& [name, tensor] : inputs) {
      const int64_t texts = tensor.NumElements() / count;
      for (int64_t i = 0; i < texts; ++i) {
        tensor.flat<tensorflow::tstring>()(row * texts + i) = *column++;
      }
    }
  }
  return inputs;
}

// Ids with spaces between them; those in the second column are segment 1.
absl::StatusOr<NamedTensors> IdInputs(const Rows& rows) {
  std::vector<std::vector<std::pair<int32_t, int32_t>>> ids_and_segments;
  size_t length = 0;
  for (const auto& columns : rows) {
    auto& row = ids_and_segments.emplace_back();
    for (size_t segment = 0; segment < columns.size(); ++segment) {
      for (const auto& word :
           absl::StrSplit(columns[segment], ' ', absl::SkipEmpty())) {
        int32_t id;
        if (!absl::SimpleAtoi(word, &id)) {
          return absl::InvalidArgumentError(
              absl::StrCat("received '", word, "'; expected a token id"));
        }
        row.emplace_back(id, segment);
      }
    }
    length = std::max(length, row.size());
  }
  NamedTensors inputs;
  for (const char* name : {"input_ids", "input_mask", "segment_ids"}) {
    Tensor& tensor = inputs[name];
    tensor = Tensor(tensorflow::DT_INT32, {static_cast<int64_t>(rows.size()),
                                           static_cast<int64_t>(length)});
    tensor.flat<int32_t>().setZero();
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t i = 0; i < ids_and_segments[row].size(); ++i) {
      const auto [id, segment] = ids_and_segments[row][i];
      inputs["input_ids"].matrix<int32_t>()(row, i) = id;
      inputs["input_mask"].matrix<int32_t>()(row, i) = 1;
      inputs["segment_ids"].matrix<int32_t>()(row, i) = segment;
    }
  }
  return inputs;
}

class Model {
 public:
  absl::Status Load(const std::string& path) {
    TF_RETURN_IF_ERROR(tensorflow::LoadSavedModel(tensorflow::SessionOptions(),
                                                  tensorflow::RunOptions(),
                                                  path, {"serve"}, &bundle_));
    const auto& signatures = bundle_.GetSignatures();
    const auto found = signatures.find("serving_default");
    if (found == signatures.end()) {
      return absl::NotFoundError(
          absl::StrCat(path, " has no signature 'serving_default'"));
    }
    const auto& signature = found->second;
    inputs_ = {signature.inputs().begin(), signature.inputs().end()};
    outputs_ = {signature.outputs().begin(), signature.outputs().end()};
    return absl::OkStatus();
  }

  absl::StatusOr<NamedTensors> Answer(const Rows& rows) const {
    const auto inputs =
        inputs_.count("input_ids") ? IdInputs(rows) : TextInputs(inputs_, rows);
    TF_RETURN_IF_ERROR(inputs.status());
    std::vector<std::pair<std::string, Tensor>> feeds;
    for (const auto& [name, tensor] : *inputs) {
      feeds.emplace_back(inputs_.at(name).name(), tensor);
    }
    std::vector<std::string> fetches;
    for (const auto& [name, info] : outputs_) fetches.push_back(info.name());
    std::vector<Tensor> fetched;
    TF_RETURN_IF_ERROR(bundle_.GetSession()->Run(feeds, fetches, {}, &fetched));
    NamedTensors answers;
    for (const auto& [name, info] : outputs_) {
      answers[name] = fetched[answers.size()];
    }
    return answers;
  }

 private:
  tensorflow::SavedModelBundleLite bundle_;
  TensorInfos inputs_;
  TensorInfos outputs_;
};

std::string Json(const std::string& text) {
  std::string json = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') json += '\\';
    if (static_cast<unsigned char>(character) < ' ') {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", character);
      json += escaped;
    } else {
      json += character;
    }
  }
  return json + '"';
}

// Nine digits give the same float back. JSON has no infinity.
std::string Json(float number) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.9g", number);
  return std::isfinite(number) ? digits : "null";
}

std::string Json(int32_t number) { return absl::StrCat(number); }
std::string Json(int64_t number) { return absl::StrCat(number); }

// Lists in lists, as deep as the tensor has axes.
template <typename Element>
std::string Json(const Tensor& tensor) {
  if (tensor.dims() == 0) {
    // A slice is not aligned, as tensor.scalar() would want it.
    return Json(*static_cast<const Element*>(tensor.data()));
  }
  std::vector<std::string> parts;
  for (int64_t i = 0; i < tensor.dim_size(0); ++i) {
    parts.push_back(Json<Element>(tensor.SubSlice(i)));
  }
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

std::string JsonOf(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case tensorflow::DT_FLOAT:
      return Json<float>(tensor);
    case tensorflow::DT_INT32:
      return Json<int32_t>(tensor);
    case tensorflow::DT_INT64:
      return Json<int64_t>(tensor);
    case tensorflow::DT_STRING:
      return Json<tensorflow::tstring>(tensor);
    default:
      return Json(tensor.DebugString());
  }
}

absl::Status PrintAnswers(const Model& model, const Rows& rows) {
  const auto answers = model.Answer(rows);
  TF_RETURN_IF_ERROR(answers.status());
  for (size_t row = 0; row < rows.size(); ++row) {
    std::vector<std::string> fields;
    for (const auto& [name, tensor] : *answers) {
      fields.push_back(
          absl::StrCat(Json(name), ": ", JsonOf(tensor.SubSlice(row))));
    }
    std::cout << "{" << absl::StrJoin(fields, ", ") << "}" << std::endl;
  }
  return absl::OkStatus();
}

absl::Status Run(const std::string& saved_model,
                 const std::vector<std::string>& libraries) {
  for (const auto& library : libraries) {
    void* handle;
    TF_RETURN_IF_ERROR(tensorflow::Env::Default()->LoadDynamicLibrary(
        library.c_str(), &handle));
  }
  Model model;
  TF_RETURN_IF_ERROR(model.Load(saved_model));
  Rows rows;
  for (std::string line; std::getline(std::cin, line);) {
    rows.push_back(absl::StrSplit(line, '\t'));
    if (rows.size() == kBatchSize) {
      TF_RETURN_IF_ERROR(PrintAnswers(model, rows));
      rows.clear();
    }
  }
  return rows.empty() ? absl::OkStatus() : PrintAnswers(model, rows);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: client SAVED_MODEL [OPERATOR_LIBRARY...] < lines\n";
    return 2;
  }
  // oneDNN then rearranges each matrix of weights once, not in every batch.
  setenv("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1", /*overwrite=*/0);
  // TensorFlow's errors come back as a status.
  absl::SetMinLogLevel(absl::LogSeverityAtLeast::kFatal);
  const absl::Status status = Run(argv[1], {argv + 2, argv + argc});
  if (status.ok()) return 0;
  // What follows the first line is where in the graph it happened.
  const std::vector<std::string> lines = absl::StrSplit(status.message(), '\n');
  std::cerr << absl::StatusCodeToString(status.code()) << ": " << lines[0]
            << std::endl;
  return 1;
}
