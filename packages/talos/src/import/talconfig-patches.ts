// The patches of a talconfig.yaml: those that stand in it, those in files that it names, and what is made one here.
import { AppError } from "@gpve/contracts/errors.ts";
import { stringify } from "yaml";
import { isTree, listOf, textOf, textsOf, type Tree, treeAt } from "./imported-cluster.ts";
import { strategicPatch } from "./strategic-patch.ts";
import { settingsPatch } from "./talconfig-settings.ts";
import { parseTalconfig } from "./talconfig-text.ts";

/** Files by the names that a talconfig.yaml has for them. */
export interface NamedFiles {
  /** undefined: it is not there. */
  readonly read: (name: string) => string | undefined;
  /** From the folder of the new file. */
  readonly nameOf: (name: string) => string;
}

export const CNI_PATCH = "patches/cni.yaml";
/** Minors of v1: whose configurations are of several documents, and what is written where none is said. */
const FIRST_OF_DOCUMENTS = 12;
const USUAL = 13;

export class TalconfigPatches {
  /** Those to be written, by their names. */
  readonly files = new Map<string, string>();
  readonly notes: string[] = [];
  readonly #named = new Map<string, string>();
  readonly #file: Tree;
  readonly #from: NamedFiles | undefined;
  readonly #minor: number;

  constructor(file: Tree, from: NamedFiles | undefined) {
    this.#file = file;
    this.#from = from;
    this.#minor = Number(/^v?1\.(\d+)\b/.exec(textOf(file["talosVersion"]) ?? "")?.[1] ?? USUAL);
  }

  /** Of all patches that are known. */
  get texts(): readonly string[] {
    return [...this.files.values(), ...this.#named.values()];
  }

  of(part: unknown, name: string): readonly string[] {
    return listOf(treeAt(part, "patches")).flatMap((patch, at) => {
      const text = typeof patch === "string" ? patch : "";
      const path = `patches/${name}-${at + 1}.yaml`;
      return text.startsWith("@") ? this.#ofFile(text.slice(1).trim(), path) : this.#own(path, text);
    });
  }

  /** What `keys` say as a patch, and the patches themselves. */
  ofBoth(part: unknown, keys: readonly string[], name: string): readonly string[] {
    const files = listOf(treeAt(part, "machineFiles")).map((file) => this.#whole(file));
    const whole = isTree(part) && files.length > 0 ? { ...part, machineFiles: files } : part;
    return [
      ...this.#write(`patches/${name}-settings.yaml`, settingsPatch(whole, keys, this.#minor)),
      ...this.of(part, name),
    ];
  }

  /** A custom network plugin's manifests are what Talos fetches by itself: every machine is told, later control planes alone. */
  ofPlugin(whose: "all" | "controlPlane"): readonly string[] {
    const cni = this.#file["cniConfig"];
    const urls = textsOf(treeAt(cni, "urls"));
    const areDocuments = this.#minor > USUAL;
    if (treeAt(cni, "name") !== "custom" || areDocuments !== (whose === "controlPlane")) return [];
    if (!areDocuments && urls.length > 0)
      return this.#write(CNI_PATCH, stringify({ cluster: { network: { cni: { name: "custom", urls } } } }));
    const documents = urls.map((url, at) => {
      const name = at === 0 ? "custom-cni" : `custom-cni-${at + 1}`;
      return stringify({ apiVersion: "v1alpha1", kind: "KubeExternalManifestConfig", name, url });
    });
    return this.#write(CNI_PATCH, documents.join("---\n"));
  }

  #write(path: string, text: string): readonly string[] {
    if (text === "") return [];
    this.files.set(path, text);
    return [path];
  }

  #ofFile(name: string, path: string): readonly string[] {
    if (this.#from === undefined) return [name];
    const text = this.#read(name);
    if (Array.isArray(parseTalconfig(text)) && this.#takesNoOperations) return this.#own(path, text);
    this.#named.set(name, text);
    return [this.#from.nameOf(name)];
  }

  #read(name: string): string {
    const text = this.#from?.read(name);
    if (text !== undefined) return text;
    throw new AppError("config.invalid", `the talconfig.yaml names the file ${name}, which is not there`, {
      data: { finding: "patch-unreadable", next: "Nothing was written." },
    });
  }

  /** Contents may be those of another file. */
  #whole(file: unknown): unknown {
    const content = textOf(treeAt(file, "content"));
    if (!isTree(file) || this.#from === undefined || content?.startsWith("@") !== true) return file;
    return { ...file, content: this.#read(content.slice(1).trim()) };
  }

  get #takesNoOperations(): boolean {
    return this.#minor >= FIRST_OF_DOCUMENTS;
  }

  /** A patch that stands in the file, as Talos takes it. */
  #own(path: string, text: string): readonly string[] {
    const operations = parseTalconfig(text);
    if (!Array.isArray(operations)) {
      this.files.set(path, text);
      return [path];
    }
    if (!this.#takesNoOperations) {
      this.notes.push(
        `${path} is a JSON patch, which Talos takes no longer from v1.12 on: write it as a strategic merge patch.`,
      );
      return this.#write(path, text);
    }
    const { text: merged, left } = strategicPatch(operations as unknown[]);
    const without = left.length === 0 ? "" : `, without ${left.join(", ")}, which such patches cannot say`;
    this.notes.push(
      merged === ""
        ? `not taken over: the JSON patch ${path}: ${left.join(", ") || "it is empty"}.`
        : `${path} was a JSON patch, which Talos takes no longer from v1.12 on; it is a strategic merge patch now${without}: look through it.`,
    );
    return this.#write(path, merged);
  }
}
