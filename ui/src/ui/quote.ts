// A value in a command that somebody copies into a shell: names of files may hold anything.
export const quote = (value: string) => (/^[\w@%+=:,./~-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`);
