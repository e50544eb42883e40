// Hadoop's local file system, without a process for each new file and with one look at each listed file.
// Compiled by local_files.py.

package headgate;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends RawLocalFileSystem {
    /** By the bits of a mode, the lowest first. */
    private static final PosixFilePermission[] PERMISSIONS = {
        PosixFilePermission.OTHERS_EXECUTE, PosixFilePermission.OTHERS_WRITE, PosixFilePermission.OTHERS_READ,
        PosixFilePermission.GROUP_EXECUTE, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_READ,
        PosixFilePermission.OWNER_EXECUTE, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_READ,
    };

    /** Hadoop's class throws here; Iceberg asks. */
    public String getScheme() {
        return "file";
    }

    /** Hadoop starts a `chmod` for every file that it creates. */
    public void setPermission(Path path, FsPermission permission) throws IOException {
        int mode = permission.toShort();
        if (mode >> PERMISSIONS.length != 0) {
            super.setPermission(path, permission);
            return;
        }
        Set permissions = EnumSet.noneOf(PosixFilePermission.class);
        for (int bit = 0; bit < PERMISSIONS.length; bit++) {
            if ((mode >> bit & 1) != 0) {
                permissions.add(PERMISSIONS[bit]);
            }
        }
        Files.setPosixFilePermissions(pathToFile(path).toPath(), permissions);
    }

    /** Hadoop asks the operating system several times about each file of a folder. */
    public FileStatus[] listStatus(Path path) throws IOException {
        File folder = pathToFile(path);
        String[] names = folder.list();
        if (names == null) {
            return super.listStatus(path);
        }
        FileStatus[] found = new FileStatus[names.length];
        int count = 0;
        for (int i = 0; i < names.length; i++) {
            try {
                File file = new File(folder, names[i]);
                BasicFileAttributes seen =
                    Files.readAttributes(file.toPath(), BasicFileAttributes.class, new LinkOption[0]);
                // Made as Hadoop makes it, `file:///` and not `file:/`: Spark's log of the files that it has read
                // compares these texts.
                Path place = new Path(file.getPath()).makeQualified(getUri(), getWorkingDirectory());
                found[count] = new Listed(this, seen, place);
                count++;
            } catch (NoSuchFileException gone) {
                // It was removed meanwhile.
            }
        }
        return (FileStatus[]) Arrays.copyOf(found, count);
    }

    /** The status of a listed file; its owner and permissions are looked up when they are asked for. */
    private static class Listed extends FileStatus {
        private final LocalFiles files;

        Listed(LocalFiles files, BasicFileAttributes seen, Path path) {
            super(
                seen.size(), seen.isDirectory(), 1, files.getDefaultBlockSize(path), seen.lastModifiedTime().toMillis(),
                seen.lastAccessTime().toMillis(), null, null, null, path);
            this.files = files;
        }

        public FsPermission getPermission() {
            return whole().getPermission();
        }

        public String getOwner() {
            return whole().getOwner();
        }

        public String getGroup() {
            return whole().getGroup();
        }

        private FileStatus whole() {
            try {
                return files.getFileStatus(getPath());
            } catch (IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        }
    }
}
