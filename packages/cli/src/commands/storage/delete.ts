import type { CommandSpec } from "../../command.ts";

export const storageDelete: CommandSpec = {
  name: "storage delete",
  summary: "forget a storage; its files stay",
  arguments: [{ name: "<storage>", about: "the storage's name" }],
  doing: (input) => `delete storage ${input.arg("storage")}`,
  run: async (cli, input) => {
    const storage = input.arg("storage");
    const { pve } = await cli.client();
    await pve.delete("/storage/{storage}", { storage });
    cli.out.done(`Deleted storage ${storage}. Its files are still there.`);
  },
};
