// Cloud images that can be had by name. Each names its publisher's own checksum file: what is not in there, or differs
// from it, is never used. Names without a version in their address ("latest") get whatever the publisher has today.

export interface CatalogueImage {
  readonly name: string;
  readonly about: string;
  /** A qcow2 image. */
  readonly url: string;
  readonly checksums: string;
  /** The recipe that makes an equal image here, for places without the Internet. */
  readonly recipe?: ImageRecipeName;
}

export const imageRecipes = {
  tiny: "a Linux that boots in seconds, for trying and testing: busybox, guest agent, cloud-init basics",
  lb: "a load balancer's machine: haproxy before the API servers of a cluster, and nothing to log in to",
  debian: "the Debian of this host, with cloud-init and guest agent",
} as const;

export type ImageRecipeName = keyof typeof imageRecipes;

const debian = (version: number, codename: string): CatalogueImage => {
  const folder = `https://cloud.debian.org/images/cloud/${codename}/latest`;
  return {
    name: `debian${version}`,
    about: `Debian ${version} (${codename})`,
    url: `${folder}/debian-${version}-genericcloud-amd64.qcow2`,
    checksums: `${folder}/SHA512SUMS`,
    recipe: "debian",
  };
};

const ubuntu = (version: string, codename: string): CatalogueImage => {
  const folder = `https://cloud-images.ubuntu.com/${codename}/current`;
  return {
    name: `ubuntu${version.replace(".", "")}`,
    about: `Ubuntu ${version} LTS (${codename})`,
    url: `${folder}/${codename}-server-cloudimg-amd64.img`,
    checksums: `${folder}/SHA256SUMS`,
  };
};

const alpine = (): CatalogueImage => {
  const url =
    "https://dl-cdn.alpinelinux.org/alpine/v3.20/releases/cloud/nocloud_alpine-3.20.3-x86_64-bios-cloudinit-r0.qcow2";
  return { name: "alpine", about: "Alpine Linux 3.20", url, checksums: `${url}.sha512` };
};

const rocky = (version: number): CatalogueImage => {
  const url = `https://dl.rockylinux.org/pub/rocky/${version}/images/x86_64/Rocky-${version}-GenericCloud-Base.latest.x86_64.qcow2`;
  return { name: `rocky${version}`, about: `Rocky Linux ${version}`, url, checksums: `${url}.CHECKSUM` };
};

const alma = (version: number): CatalogueImage => {
  const folder = `https://repo.almalinux.org/almalinux/${version}/cloud/x86_64/images`;
  return {
    name: `alma${version}`,
    about: `AlmaLinux ${version}`,
    url: `${folder}/AlmaLinux-${version}-GenericCloud-latest.x86_64.qcow2`,
    checksums: `${folder}/CHECKSUM`,
  };
};

export const imageCatalogue: readonly CatalogueImage[] = [
  debian(12, "bookworm"),
  debian(13, "trixie"),
  ubuntu("22.04", "jammy"),
  ubuntu("24.04", "noble"),
  alpine(),
  rocky(9),
  alma(9),
];

/** The volume under which a pulled or built image is kept. */
export function imageVolume(storage: string, name: string): string {
  return `${storage}:import/${name}.qcow2`;
}
