import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { chosenNode, nodeOption, storageOption, storageQuery } from "./image-target.ts";

export const imageList: CommandSpec = {
  name: "image list",
  summary: "list images that can be pulled or built, and those that are on a node",
  options: [nodeOption, storageOption],
  examples: ["image list", "image list --node n1 -o json"],
  doing: () => "list images",
  run: async (cli, input) => {
    const client = await cli.client();
    const node = await chosenNode(client, input);
    const answer = await client.v1.raw(
      "GET",
      `nodes/${encodeURIComponent(node)}/images${storageQuery(input)}`,
    );
    const rows = isObject(answer) && Array.isArray(answer["images"]) ? (answer["images"] as unknown[]) : [];
    cli.out.rows(
      rows,
      [
        { header: "IMAGE", field: "name" },
        { header: "PULL", field: "pull", format: "boolean" },
        { header: "BUILD", field: "build", format: "boolean" },
        { header: "VOLUME", field: "volume" },
        { header: "SIZE", field: "sizeBytes", format: "bytes" },
        { header: "ABOUT", field: "about" },
      ],
      "No images.",
    );
  },
};
