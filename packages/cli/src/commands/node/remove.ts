import type { CommandSpec } from "../../command.ts";

export const nodeRemove: CommandSpec = {
  name: "node remove",
  summary: "take a node out of the cluster and revoke its certificate",
  details: [
    "From then on no server talks to it, and what it had open ends at once. A node with guests is refused, unless",
    "--force is given: the guests run on there without anybody to manage them, and their configurations are kept for a",
    "node of that name. It may join again with a new token (gpvectl node join-command) and is then a new node.",
  ].join(" "),
  arguments: [{ name: "<node>", about: "the node's name" }],
  options: [{ flags: "--force", about: "also with guests on it" }],
  examples: ["node remove n2", "node remove n2 --force"],
  doing: (input) => `remove node ${input.arg("node")}`,
  run: async (cli, input) => {
    const node = input.arg("node");
    const { v1 } = await cli.client();
    const force = input.flag("force") ? "?force=1" : "";
    await v1.raw("DELETE", `nodes/${encodeURIComponent(node)}${force}`);
    cli.out.done(`Removed node ${node}.`);
  },
};
