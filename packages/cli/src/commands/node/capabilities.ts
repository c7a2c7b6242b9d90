import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";

export const nodeCapabilities: CommandSpec = {
  name: "node capabilities",
  summary: "show what a node can and cannot do, found by trying, and how to mend it",
  arguments: [{ name: "<node>", about: "the node's name" }],
  doing: (input) => `show the capabilities of node ${input.arg("node")}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const answer = await v1.raw("GET", `nodes/${encodeURIComponent(input.arg("node"))}/capabilities`);
    const list = isObject(answer) ? (answer["capabilities"] ?? answer["items"]) : answer;
    const rows = Array.isArray(list) ? (list as readonly unknown[]) : [answer];
    cli.out.rows(
      rows,
      [
        { header: "CAPABILITY", field: "name" },
        { header: "AVAILABLE", field: "available", format: "boolean" },
        { header: "DETAIL", field: "detail" },
        { header: "FIX", field: "fix" },
      ],
      "The node has not reported its capabilities yet.",
    );
  },
};
