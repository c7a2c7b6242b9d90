// `component install`, `verify` and `import`: each is a task of the node.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import type { Input } from "../../input.ts";
import { chosenNode, nodeOption } from "../image/image-target.ts";

const component = { name: "<component>", about: "a name from `component list`" };

export const componentInstall: CommandSpec = {
  name: "component install",
  summary: "bring a component to a node: fetched and checked, from Debian, or built from Go modules",
  details:
    "Without --from each way is tried in turn. Where nobody has the newest patch of a minor, the next older one is taken and the output says so; a version that was named in full is never replaced by another. Kubernetes built from Go modules takes about 8 minutes on two cores; what was built before is there already.",
  arguments: [
    component,
    { name: "[version]", about: "a version, or a minor such as 1.35; the newest, unless told" },
  ],
  options: [
    nodeOption,
    { flags: "--from <way>", about: "download, debian or go: only this way" },
    noWaitOption,
  ],
  examples: ["component install kubernetes 1.35", "component install kubernetes 1.36.4 --from go"],
  doing: (input) => `install component ${input.arg("component")}`,
  run: (cli, input) => make(cli, input, "install", { from: input.text("from") }, "is on"),
};

export const componentVerify: CommandSpec = {
  name: "component verify",
  summary: "compare a component's programs with their checksums of when they were installed",
  arguments: [component, { name: "[version]", about: "the newest that is there, unless told" }],
  options: [nodeOption, noWaitOption],
  examples: ["component verify kubernetes", "component verify containerd 2.4.2"],
  doing: (input) => `verify component ${input.arg("component")}`,
  run: (cli, input) => make(cli, input, "verify", {}, "is as it was installed on"),
};

export const componentImport: CommandSpec = {
  name: "component import",
  summary: "take a component's programs from a folder on the node; any version",
  details: "Only root@pam may: these programs run as root. The folder has one file for each program.",
  arguments: [component, { name: "<version>", about: "what the programs are" }],
  options: [{ flags: "--from <folder>", about: "folder on the node" }, nodeOption, noWaitOption],
  examples: ["component import kubernetes 1.37.0 --from /opt/kubernetes/bin"],
  doing: (input) => `import component ${input.arg("component")}`,
  run: (cli, input) => {
    const path = input.text("from");
    if (path === undefined) throw new AppError("request.invalid", "say by --from which folder has them");
    return make(cli, input, "import", { path }, "is on");
  },
};

async function make(
  cli: Cli,
  input: Input,
  verb: "install" | "verify" | "import",
  more: Readonly<Record<string, string | undefined>>,
  done: string,
): Promise<void> {
  const [name, version] = [input.arg("component"), input.optionalArg("version")];
  const client = await cli.client();
  const node = await chosenNode(client, input);
  const path = `nodes/${encodeURIComponent(node)}/components/${encodeURIComponent(name)}/${verb}`;
  const answer = await client.v1.post(path, given({ version, ...more }));
  const task = isObject(answer) ? answer["task"] : undefined;
  const shown = version === undefined ? name : `${name} ${version}`;
  await finishWork(cli, input, task, `Component ${shown} ${done} ${node}`);
}
