// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/options/completion.h"

#include <functional>
#include <sstream>
#include <vector>

#include "agent/cli/text.h"

namespace cinch::cli {
namespace {

/// The subcommands, without option groups, which CLI11 has as subcommands without a name.
std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); });
}

/// The options for which `wanted` is true, also those in groups.
template <typename Wanted>
std::vector<const CLI::Option*> all_options(const CLI::App& app, const Wanted& wanted) {
  std::vector<const CLI::Option*> found = app.get_options(wanted);
  for (const CLI::App* group :
       app.get_subcommands([](const CLI::App* sub) { return sub->get_name().empty(); })) {
    for (const CLI::Option* option : all_options(*group, wanted)) {
      if (!option->check_lname("help")) found.push_back(option);
    }
  }
  return found;
}

/// Calls `visit(path, app)` for each command of the tree; `path` is "" at the top, "policy show".
void walk(const CLI::App& app, const std::string& path,
          const std::function<void(const std::string&, const CLI::App&)>& visit) {
  visit(path, app);
  for (const CLI::App* sub : commands_of(app)) {
    walk(*sub, path.empty() ? sub->get_name() : path + ' ' + sub->get_name(), visit);
  }
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return all_options(app, [](const CLI::Option* option) { return option->nonpositional(); });
}

/// "--policy -p": every way to write an option.
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

std::string words_of(const CLI::App& app) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  for (const CLI::App* sub : commands_of(app)) {
    add(sub->get_name());
  }
  for (const CLI::Option* option : options_of(app)) {
    for (const auto& name : names_of(*option)) add(name);
  }
  return words;
}

/// A script for bash, and for zsh after `bashcompinit`. After "--" it completes files and commands,
/// elsewhere our words and files.
std::string for_bash(const CLI::App& app) {
  std::ostringstream out;
  out << "# cinch completion for bash: eval \"$(cinch completion bash)\"\n"
         "_cinch() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} path= word i words=\n"
         "  COMPREPLY=()\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    word=${COMP_WORDS[i]}\n"
         "    if [[ $word == -- ]]; then\n"
         "      COMPREPLY=($(compgen -f -c -- \"$current\"))\n"
         "      return\n"
         "    fi\n"
         "    case \"${path:+$path }$word\" in\n";
  walk(app, "", [&](const std::string& path, const CLI::App&) {
    if (!path.empty()) out << "      '" << path << "') path=${path:+$path }$word ;;\n";
  });
  out << "    esac\n"
         "  done\n"
         "  case ${COMP_WORDS[COMP_CWORD - 1]} in\n"
         "    --policy | -p | --policies | show | explain | check)\n"
         "      words=$(cinch policy list 2>/dev/null | awk '{ print $1 }')\n"
         "      COMPREPLY=($(compgen -W \"$words\" -f -- \"$current\"))\n"
         "      return ;;\n"
         "  esac\n"
         "  case $path in\n";
  walk(app, "", [&](const std::string& path, const CLI::App& sub) {
    out << "    '" << path << "') words='" << words_of(sub) << "' ;;\n";
  });
  out << "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  [[ $current == -* || -z $path ]] || COMPREPLY+=($(compgen -f -- \"$current\"))\n"
         "}\n"
         "complete -o filenames -F _cinch cinch\n";
  return out.str();
}

std::string for_fish(const CLI::App& app) {
  std::ostringstream out;
  out << "# cinch completion for fish: cinch completion fish | source\n";
  walk(app, "", [&](const std::string& path, const CLI::App& sub) {
    std::string when = "__fish_use_subcommand";
    if (!path.empty()) {
      when.clear();
      std::istringstream words(path);
      for (std::string word; words >> word;) {
        when += (when.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
      }
    }
    const std::string start = "complete -c cinch -n " + quoted(when, Shell::fish);
    for (const CLI::App* below : commands_of(sub)) {
      out << start << " -f -a " << below->get_name() << " -d "
          << quoted(below->get_description(), Shell::fish) << '\n';
    }
    for (const CLI::Option* option : options_of(sub)) {
      out << start;
      for (const auto& name : option->get_lnames()) out << " -l " << name;
      for (const auto& name : option->get_snames()) out << " -s " << name;
      if (option->get_items_expected_max() > 0) out << " -r";
      out << " -d " << quoted(option->get_description(), Shell::fish) << '\n';
    }
  });
  out << "complete -c cinch -n '__fish_seen_subcommand_from run' -l policy -x -a "
         "'(cinch policy list | string split -f1 \" \")'\n";
  return out.str();
}

/// Escapes `text` for man, so that nothing in it is a request or an escape of roff.
std::string roff(const std::string& text) {
  std::string safe;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else {
      safe += c;
    }
    line_begins = c == '\n';
  }
  return safe;
}

}  // namespace

std::string completion(const CLI::App& app, const std::string& shell) {
  if (shell == "fish") return for_fish(app);
  if (shell == "zsh") {
    return "# cinch completion for zsh: eval \"$(cinch completion zsh)\"\n"
           "autoload -U +X compinit bashcompinit && compinit -u && bashcompinit\n" +
           for_bash(app);
  }
  return for_bash(app);
}

std::string manual(const CLI::App& app, const std::string& version) {
  std::ostringstream out;
  out << ".TH CINCH 1 \"\" \"cinch " << roff(version) << "\" \"User Commands\"\n"
      << ".SH NAME\ncinch \\- train PyTorch programs, unmodified, in a fraction of the memory\n"
      << ".SH SYNOPSIS\n.B cinch\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  walk(app, "", [&](const std::string& path, const CLI::App& sub) {
    if (path.empty()) return;
    out << ".SS cinch " << roff(path) << '\n' << roff(sub.get_description()) << ".\n";
    for (const CLI::Option* option : all_options(
             sub, [](const CLI::Option* each) { return !each->get_description().empty(); })) {
      out << ".TP\n\\fB";
      if (option->nonpositional()) {
        std::string names;
        for (const auto& name : names_of(*option)) names += (names.empty() ? "" : ", ") + name;
        out << roff(names) << "\\fR";
        if (option->get_items_expected_max() > 0) {
          out << " \\fI" << roff(option->get_type_name()) << "\\fR";
        }
      } else {
        out << roff(option->get_name()) << "\\fR";
      }
      out << '\n' << roff(option->get_description()) << '\n';
      if (!option->get_envname().empty()) {
        out << "(environment: " << roff(option->get_envname()) << ")\n";
      }
    }
    if (!sub.get_footer().empty()) out << ".PP\n.nf\n" << roff(sub.get_footer()) << "\n.fi\n";
  });
  out << ".SH EXAMPLES\n.nf\n"
      << roff(app.get_footer()) << "\n.fi\n"
      << ".SH EXIT STATUS\n"
         "0 when all went well, 1 when a check found something wrong, 2 for a mistake in the\n"
         "command line, in a policy or in a file; \\fBcinch run\\fR ends with its program\\(aqs "
         "status.\n";
  return out.str();
}

}  // namespace cinch::cli
