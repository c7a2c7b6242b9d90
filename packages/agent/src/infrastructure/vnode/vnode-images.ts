// The images that every worker has: what holds a pod's network, names, and a small system to look around with.
import { statSync } from "node:fs";
import { join } from "node:path";
import { IMAGES, INGRESS_COMPONENT } from "@gpve/domain/vcluster/vnode/images.ts";
import { CONTAINERD_SOCKET } from "@gpve/domain/vcluster/vnode/vnode-files.ts";
import { ensureImage, type ContainerRecipe } from "./container-image.ts";
import type { VnodeView } from "./vnode-view.ts";

export type WorkerProgram = (component: string, program: string) => string;

const TOOLS =
  "[ ash awk base64 cat chmod chown cp cut date dd df du echo env expr false find grep gunzip gzip head hostname httpd id ifconfig ip kill ln ls mkdir mknod mktemp mount mv nc netstat nslookup ping printf ps pwd readlink rm rmdir route sed seq sh sha256sum sleep sort stat tail tar tee test time timeout touch tr traceroute true umount uname uniq vi wc wget which xargs yes".split(
    " ",
  );

export async function importImages(
  view: VnodeView,
  folder: string,
  { program, hasIngress }: { readonly program: WorkerProgram; readonly hasIngress: boolean },
  signal: AbortSignal,
): Promise<void> {
  const ctr = program("containerd", "ctr");
  const call = (...args: readonly string[]) =>
    view.run(ctr, ["--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", "images", ...args], signal);
  const there = new Set((await call("list", "--quiet")).stdout.split("\n"));
  for (const { name, file } of await workerImages(folder, program, hasIngress))
    if (!there.has(name)) await call("import", file);
}

/** Their archives, made where they are not there. */
export async function workerImages(
  folder: string,
  program: WorkerProgram,
  hasIngress = false,
): Promise<readonly { readonly name: string; readonly file: string }[]> {
  const wanted = [...recipes(program), ...(hasIngress ? [ingressImage(program)] : [])];
  const images = [];
  // One after the other: each is in memory while it is written.
  for (const recipe of wanted) {
    const made = recipe.programs.map(({ from }) => Math.round(statSync(from).mtimeMs)).join("-");
    const file = join(folder, `${recipe.name.replaceAll(/[^a-z0-9.]/g, "-")}-${made}.tar`);
    await ensureImage(recipe, file);
    images.push({ name: recipe.name, file });
  }
  return images;
}

function recipes(program: WorkerProgram): readonly ContainerRecipe[] {
  const busybox = { from: program("busybox", "busybox"), to: "bin/busybox" };
  return [
    // Longer than anybody waits.
    { name: IMAGES.pause, programs: [busybox], entrypoint: ["/bin/busybox", "sleep", "2147483647"] },
    {
      name: IMAGES.busybox,
      programs: [busybox],
      links: Object.fromEntries(TOOLS.map((name) => [`bin/${name}`, "/bin/busybox"])),
      command: ["sh"],
    },
    {
      name: IMAGES.coredns,
      programs: [{ from: program("coredns", "coredns"), to: "coredns" }],
      entrypoint: ["/coredns"],
    },
  ];
}

function ingressImage(program: WorkerProgram): ContainerRecipe {
  const from = program(INGRESS_COMPONENT, "traefik");
  return { name: IMAGES.traefik, programs: [{ from, to: "traefik" }], entrypoint: ["/traefik"] };
}
