import { basename, resolve } from "node:path";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { checksumOf, checksumOption, contentOfName, contentOption } from "./checksum-option.ts";
import { nodeOf, nodeOption } from "./node-of.ts";
import { fileFacts, sendFile } from "./send-file.ts";

export const storageUpload: CommandSpec = {
  name: "storage upload",
  summary: "upload an ISO image, a template or a disk image",
  arguments: [
    { name: "<storage>", about: "the storage's name" },
    { name: "<file>", about: "a file of this machine" },
  ],
  options: [
    nodeOption,
    contentOption,
    { flags: "--name <name>", about: "how it is called there (as the file)" },
    checksumOption,
    noWaitOption,
  ],
  examples: ["storage upload local debian.iso", "storage upload local disk.qcow2 --content import"],
  doing: (input) => `upload ${input.arg("file")} to storage ${input.arg("storage")}`,
  run: async (cli, input) => {
    const storage = input.arg("storage");
    const path = resolve(cli.io.cwd, input.arg("file"));
    const name = input.text("name") ?? basename(path);
    const content = contentOfName(input.text("content"), name);
    const checksum = checksumOf(input.text("checksum"));
    const { size } = await fileFacts(path);
    const node = await nodeOf(cli, input);
    const done = await sendFile(cli, { node, storage }, { path, name, size }, { content, ...checksum });
    await finishWork(cli, input, done, `Uploaded ${name} to storage ${storage}.`);
  },
};
