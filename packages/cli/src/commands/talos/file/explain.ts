import type { CommandSpec } from "../../../command.ts";

export const talosExplain: CommandSpec = {
  name: "talos explain",
  summary: "say what a finding means and what to do",
  details: "Without an id, all findings.",
  arguments: [{ name: "[id]", about: "the id in a report" }],
  examples: ["talos explain control-planes-even", "talos explain"],
  doing: (input) => `explain ${input.optionalArg("id") ?? "the findings"}`,
  run: async (cli, input) => {
    const { catalogue, findingKind } = await import("@gpve/talos/findings/catalogue.ts");
    const id = input.optionalArg("id");
    if (id === undefined) {
      const rows = Object.entries(catalogue).map(([key, kind]) => ({ id: key, ...kind }));
      cli.out.rows(
        rows,
        [
          { header: "ID", field: "id" },
          { header: "ABOUT", field: "area" },
          { header: "WHAT", field: "title" },
        ],
        "",
      );
      return;
    }
    cli.out.facts(findingKind(id), [
      { header: "Finding", field: "title" },
      { header: "About", field: "area" },
      { header: "Evidence", field: "evidence" },
      { header: "Cause", field: "cause" },
      { header: "Fix", field: "fix" },
    ]);
  },
};
