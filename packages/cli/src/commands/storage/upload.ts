import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { checksumOf, checksumOption, contentOfName, contentOption } from "./checksum-option.ts";
import { nodeOf, nodeOption } from "./node-of.ts";

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
    const facts = await stat(path).catch((cause: unknown) => {
      throw new AppError("object.not_found", `cannot read ${path}`, { cause });
    });
    if (!facts.isFile()) throw new AppError("request.invalid", `${path} is not a file`);
    const { pve } = await cli.client();
    const node = await nodeOf(cli, input);
    const answer = await pve.upload(
      `/nodes/${encodeURIComponent(node)}/storage/${encodeURIComponent(storage)}/upload`,
      {
        fields: { content, ...checksum },
        file: {
          field: "filename",
          name,
          size: facts.size,
          open: () => createReadStream(path, { highWaterMark: 1024 * 1024 }),
        },
      },
      { signal: cli.signal, timeoutMs: 0 },
    );
    await finishWork(cli, input, answer.data, `Uploaded ${name} to storage ${storage}.`);
  },
};
