import type { CommandSpec } from "../../../command.ts";

export const talosSchema: CommandSpec = {
  name: "talos schema",
  summary: "print the JSON Schema of cluster.yaml, for editors",
  examples: ["talos schema > cluster.schema.json"],
  doing: () => "print the schema",
  run: async (cli) => {
    const { publishedClusterSchema } = await import("@gpve/talos/cluster/cluster-schema.ts");
    cli.out.line(JSON.stringify(publishedClusterSchema(), null, 2));
  },
};
