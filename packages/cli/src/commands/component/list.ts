import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { chosenNode, nodeOption } from "../image/image-target.ts";

export const componentList: CommandSpec = {
  name: "component list",
  summary: "list the programs that virtual clusters are made of, and which a node has",
  options: [nodeOption],
  examples: ["component list", "component list --node n1 -o json"],
  doing: () => "list components",
  run: async (cli, input) => {
    const client = await cli.client();
    const node = await chosenNode(client, input);
    const answer = await client.v1.raw("GET", `nodes/${encodeURIComponent(node)}/components`);
    const rows =
      isObject(answer) && Array.isArray(answer["components"]) ? (answer["components"] as unknown[]) : [];
    cli.out.rows(
      rows,
      [
        { header: "COMPONENT", field: "name" },
        { header: "VERSION", field: "version" },
        { header: "INSTALLED", field: "installed" },
        { header: "SIZE", field: "sizeBytes", format: "bytes" },
        { header: "WAYS", field: "ways", format: "list" },
        { header: "ABOUT", field: "about" },
      ],
      "No components.",
    );
  },
};
