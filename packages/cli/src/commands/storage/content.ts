import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";
import { wholeNumber } from "../../input.ts";
import { nodeOf, nodeOption } from "./node-of.ts";

export const storageContent: CommandSpec = {
  name: "storage content",
  summary: "list what a storage holds",
  arguments: [{ name: "<storage>", about: "the storage's name" }],
  options: [
    nodeOption,
    {
      flags: "--content <type>",
      about: "only this kind",
      choices: ["images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import"],
    },
    { flags: "--vmid <id>", about: "only volumes of this guest", parse: wholeNumber(100, 999_999_999) },
  ],
  examples: ["storage content local --content iso"],
  doing: (input) => `list the content of storage ${input.arg("storage")}`,
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const rows = await pve.list("/nodes/{node}/storage/{storage}/content", {
      node: await nodeOf(cli, input),
      storage: input.arg("storage"),
      ...given({ content: input.text("content"), vmid: input.number("vmid") }),
    });
    const columns = [
      { header: "VOLUME", field: "volid" },
      { header: "CONTENT", field: "content" },
      { header: "FORMAT", field: "format" },
      { header: "SIZE", field: "size", format: "bytes" },
      { header: "VMID", field: "vmid" },
      { header: "CREATED", field: "ctime", format: "time" },
      { header: "NOTES", field: "notes" },
      { header: "USED", field: "used", format: "bytes", wide: true },
      { header: "PARENT", field: "parent", wide: true },
    ] as const;
    cli.out.rows(rows, columns, "Nothing there.");
  },
};
