import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { completionScript, SHELLS } from "../../completion-script.ts";
import { completeWords } from "../../completion-words.ts";

/** Needs the list of all commands, itself included. */
export function completionCommand(all: () => readonly CommandSpec[]): CommandSpec {
  return {
    name: "completion",
    summary: "print a script that completes gpvectl commands in your shell",
    details: "With `words` it prints what may follow on a command line; the scripts use that.",
    arguments: [
      { name: "<shell>", about: "your shell", choices: [...SHELLS, "words"] },
      { name: "[words...]", about: "with `words`: the command line so far" },
    ],
    examples: [
      "completion bash > ~/.local/share/bash-completion/completions/gpvectl",
      "completion fish | source",
    ],
    doing: (input) => `print the completion for ${input.arg("shell")}`,
    run: async (cli, input) => {
      const shell = SHELLS.find((one) => one === input.arg("shell"));
      if (shell !== undefined) {
        cli.out.text(completionScript(shell));
        return;
      }
      if (input.arg("shell") !== "words") throw new AppError("request.invalid", "no such shell");
      for (const word of completeWords(all(), input.args("words"))) cli.out.line(word);
    },
  };
}
